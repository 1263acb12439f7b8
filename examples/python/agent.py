"""An agent in ten lines: it writes a run into the session s1, and prints what readers of the session get. `pip install tailrace`, and `tailrace up` runs."""

from tailrace import Tailrace

tr = Tailrace()  # TAILRACE_URL, or http://127.0.0.1:4480
with tr.run("s1", message="Where is my parcel?", agent="support") as run:
    run.text("Let me look. ")
    with run.tool("track", {"parcel": 7}) as call:
        call.result({"city": "Oslo"})
    run.text("It is in Oslo.")
for event in tr.follow("s1"):
    print(event.id, event.data)
