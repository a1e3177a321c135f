"""The whole machine as the mechanism: neighbouring source files and histories in, all public bytes
out, claims on both.
"""
