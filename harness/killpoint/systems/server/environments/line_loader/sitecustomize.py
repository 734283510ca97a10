"""Has processes of servers that load no plugins arm ``killpoint_line``, if they are told a line.

Python runs this in each process of the server, because the folder is on the path.
"""

import os

if os.environ.get("KILLPOINT_LINE"):
    from killpoint_line import register

    register()
