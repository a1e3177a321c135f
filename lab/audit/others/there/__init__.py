"""What runs in the environment of other packages: one module for each library, which knows neither
dpicl nor the others, and a process that answers for them.

The folder is run by its path (`python lab/audit/others/there`), so that nothing of dpicl need be
installed there.
"""
