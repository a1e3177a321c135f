"""The certificate of a release: what was promised, to whom and under which assumptions, signed by
the installation that released.

    statement   what a certificate says, as frozen types, and its one form as JSON
    issue       from a published release to its certificate
    signing     the installation's key, and whether a signature is one of a key
    files       a file with its certificate beside it; whether both hold
    page        a certificate as one page of HTML

    certificate = certify(contract, unit, settings)                      # of a release that is
    published
    write_certified(Path("rows.csv"), writer, certificate, settings)     # rows.csv and
    rows.csv.certificate.json
    verify_file(Path("rows.csv"), key=public_key(settings))              # raises CertificateError
    if a byte is another one

Guarantee   none spent: everything in it is public, as the ledger's records are. It holds no number
            of rows and no digest of the rows: what it has of content is the hash of what was
            released.
"""
