"""What a certificate states, priced again with dp-accounting and prv-accountant from its priced
event. A program by itself, which imports nothing of the rest of dpicl:

    python -m dpicl.recompute rows.csv.certificate.json

Guarantee   none spent: reads a certificate, in which everything is public.
"""
