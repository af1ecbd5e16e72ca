# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL, in which any number of parsers on any machines share one queue (docs/decisions/0261). Imported only where
PARSER_DATABASE_URL is set."""
