"""Views out: after every batch, where others read them.

latest.py       the file that says what is there, and whose it is
parquet.py      rows to files, by the driver or by executors
versioned.py    the whole view, version by version
changes.py      what each batch did to the view
tables.py       either of them under a name of Spark's catalog
registry.py     the sinks of a mill
"""
