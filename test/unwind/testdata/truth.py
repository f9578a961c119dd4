# For gdb: at each stop, writes the thread and the addresses of its frames except the first.
import gdb
import os

out = open(os.environ["TRUTH"], "w")


class Stop(gdb.Breakpoint):
    def stop(self):
        frame, pcs = gdb.newest_frame().older(), []
        while frame is not None:
            if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
                pcs.append("%x" % frame.pc())
            frame = frame.older()
        out.write("%d %s\n" % (gdb.selected_thread().ptid[1], " ".join(pcs)))
        return False


for line in (
    "set pagination off",
    "set backtrace past-main on",
    "set backtrace past-entry on",
    "set print thread-events off",
    "handle SIGUSR1 SIGUSR2 SIGILL SIGSEGV nostop noprint pass",
):
    gdb.execute(line)
Stop("*(long)&stopped")
print("attached", flush=True)
gdb.execute("continue")
out.close()
