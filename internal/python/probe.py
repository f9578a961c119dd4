# Prints what the interpreter knows of objects that do not move; search.go looks for them in memory.
# Runs with -I -S: only built-in modules.
import sys
import _thread
import time

sys.setswitchinterval(3 / 16)  # unique when converted to microseconds

source = "\n" * 4321 + """
class Kept:
    def innermost():
        native.append(_thread.get_native_id())
        ready.release()
        forever.acquire()
    def generator(inner):
        yield inner()
""" + "\n" * 1000 + """
    def between():
        for x in Kept.generator(Kept.innermost): pass
    def outer(inner):
        for x in inner: pass
    def outermost():
        Kept.outer(Kept.generator(Kept.between))
"""
native = [_thread.get_native_id()]
ready, forever = _thread.allocate_lock(), _thread.allocate_lock()
ready.acquire()
forever.acquire()
exec(compile(source, "a file of no such name", "exec"), globals())
other = _thread.start_new_thread(Kept.outermost, ())
ready.acquire()
time.sleep(0.02)  # it blocks by now, and stays

ascii_text, wide_text = "an ASCII text to look for", "a text to look for \u0416"
print("basic", type(compile("", "", "exec")).__basicsize__)
print("texts", id(ascii_text), id(wide_text))
print("threads", _thread.get_ident(), other, *native)
frame = sys._current_frames()[other]
while frame:
    code = frame.f_code
    print("frame", id(frame), id(code), frame.f_lasti, code.co_firstlineno, id(code.co_filename), id(code.co_name),
          id(getattr(code, "co_qualname", code.co_name)), id(code.co_linetable), id(code.co_code))
    frame = frame.f_back
print("done", flush=True)
forever.acquire()
