"""What clients report, and what a collector makes of it: questionnaires, tallies,
reconstructions.
"""
