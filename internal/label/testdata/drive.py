# Calls an example as its framework does.
import asyncio
import inspect
import sys
from types import SimpleNamespace as Facts


def overrides(one):
    base = type(one).__mro__[1]
    for name, method in vars(type(one)).items():
        if name.startswith("on_"):  # the framework calls it by these names
            assert inspect.signature(method) == inspect.signature(getattr(base, name)), name


def client():
    from ingero_labels import label
    assert label(step=120, tenant="a")
    assert label(clear=["step"])


def lightning():
    from lightning_labels import Labels
    one, trainer = Labels(), Facts(current_epoch=3, global_step=70)
    overrides(one)
    one.on_train_epoch_start(trainer, None)
    one.on_train_batch_start(trainer, None, None, 0)
    one.on_train_end(trainer, None)


def transformers():
    from transformers_labels import Labels
    one, state = Labels(), Facts(epoch=3.0, global_step=70)
    overrides(one)
    one.on_epoch_begin(None, state, None, model=None)
    one.on_step_begin(None, state, None, model=None)
    one.on_train_end(None, state, None, model=None)


def ray():
    from ray_labels import label_task
    label_task(tenant="a")


def asgi():
    from asgi_labels import Labels

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(Labels(app)({"type": "lifespan"}, receive, send))
    asyncio.run(Labels(app)({"type": "http", "headers": [(b"x-tenant", b"a")]}, receive, send))
    assert len(sent) == 4, sent


globals()[sys.argv[1]]()
print("sent", flush=True)
sys.stdin.read()  # lives until the test has seen its labels
