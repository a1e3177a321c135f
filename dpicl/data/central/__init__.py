"""What a curator counts: groups, noisy averages, noisy pairs of columns, and the model that
explains them.
"""
