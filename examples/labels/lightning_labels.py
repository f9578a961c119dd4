# SPDX-License-Identifier: Apache-2.0
"""PyTorch Lightning: Trainer(callbacks=[Labels()]).

Not tested with Lightning itself. Methods by its documentation:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.Callback.html
"""
from ingero_labels import label
from lightning.pytorch.callbacks import Callback


class Labels(Callback):
    def on_train_epoch_start(self, trainer, pl_module):
        label(epoch=trainer.current_epoch)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        label(step=trainer.global_step)

    def on_train_end(self, trainer, pl_module):
        label(clear=["epoch", "step"])
