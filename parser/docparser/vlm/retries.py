# SPDX-License-Identifier: Apache-2.0
"""How often a call of the VLM is tried, and how long the client waits between tries (decision 0205).

In containers HAProxy tries a call on another replica before the parser sees that one hung up (``config/haproxy.cfg``:
``retries``, ``retry-on``). A job tries a page again as a whole (``jobs/runner``).

A try counts against a block only if the server answers others afterwards (``vlm/presence``).
"""

TRIES = 4  # of a call that the server fails on
TIMED_OUT_TRIES = 2
LOST_TRIES = 6  # of a call whose connection breaks, or whose server a balancer has lost
FIRST_PAUSE_S = 0.3
LONGEST_PAUSE_S = 2.0  # while nobody is there, so that the server's return is noticed soon
# A balancer needs some seconds to notice that a replica has failed, and sends calls to it until then.
LONGEST_FAULT_PAUSE_S = 10.0
TINY_S = 20.0  # longest wait for the tiny image; a busy server takes its time
# A block whose text ran into a loop is tried once more with these, which make the same words less likely (vLLM's
# sampling parameters).
OTHER_SAMPLING = {"temperature": 0.3, "top_p": 0.95, "repetition_penalty": 1.15}
