# The methods that the example overrides, as the documentation of Lightning has them.
class Callback:
    def on_train_epoch_start(self, trainer, pl_module): pass
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx): pass
    def on_train_end(self, trainer, pl_module): pass
