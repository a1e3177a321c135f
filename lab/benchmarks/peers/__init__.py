"""dpicl beside other tools at an equal guarantee; `list_of_systems` and `list_of_tables` were fixed
before anything was run.
"""
