"""Every causal language model that the installed transformers can build small, read through dpicl
and compared with transformers itself.
"""
