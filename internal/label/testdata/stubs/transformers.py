# The methods that the example overrides, as the source of Transformers has them.
class TrainerCallback:
    def on_epoch_begin(self, args, state, control, **kwargs): pass
    def on_step_begin(self, args, state, control, **kwargs): pass
    def on_train_end(self, args, state, control, **kwargs): pass
