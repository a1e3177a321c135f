"""What alembic runs: migrate on the connection it is given, inside that connection's
transaction.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
