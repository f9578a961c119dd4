# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Transformers: Trainer(callbacks=[Labels()]).

Not tested with Transformers itself. Methods by its source:
https://github.com/huggingface/transformers/blob/main/src/transformers/trainer_callback.py
"""
from ingero_labels import label
from transformers import TrainerCallback


class Labels(TrainerCallback):
    def on_epoch_begin(self, args, state, control, **kwargs):
        label(epoch=int(state.epoch))

    def on_step_begin(self, args, state, control, **kwargs):
        label(step=state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        label(clear=["epoch", "step"])
