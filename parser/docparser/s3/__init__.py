# SPDX-License-Identifier: Apache-2.0
"""An S3 bucket, in which documents and results lie that parsers on any machines share (docs/decisions/0261). Imported
only where PARSER_STORAGE_URL is set."""
