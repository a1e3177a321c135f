"""What a release would be worth, before anything is charged: from the contract, a stated number of
rows and epsilon alone.
"""
