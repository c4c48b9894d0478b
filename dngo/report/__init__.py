"""Views of a study: a page of text, a status, one HTML file with every figure, live views."""

from dngo.report.conclusion import conclude
from dngo.report.live import regret, status
from dngo.report.text import format_status, headline, summary
