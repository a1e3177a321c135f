"""From a source to typed, checked rows: files, folders, queries and repositories; batches; who is
held out.
"""
