"""The benchmark: `viewmill bench tpch | vwap | soak | draw`.

It uses the public interface only, verifies every answer it times against DuckDB, and needs the packages of the extra
`bench`. From the data to the report: `queries`, `data`, `stream` (what is fed in), `truth` (what is right),
`timing` and `measure` (one cell), `worker` (in a process of its own), `baseline` and `startup` (what else is timed),
`tpch_run` (the whole), `results` (what was found), `targets`, `tables`, `report` and `plots` (how it is shown).
"""
