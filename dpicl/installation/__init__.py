"""Looking after an installation: whether all is in order, what may go, and a backup that cannot
undo what was charged.
"""
