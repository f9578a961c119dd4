-- What the driver says of a fault beside its code.
ALTER TABLE xids ADD COLUMN gpu_instance INTEGER;      -- MIG instance that it is attributed to, as nvidia-smi numbers it
ALTER TABLE xids ADD COLUMN compute_instance INTEGER;
ALTER TABLE xids ADD COLUMN caused_by INTEGER;         -- code of the fault that the driver names as the cause
ALTER TABLE xids ADD COLUMN no_code INTEGER NOT NULL DEFAULT 0; -- 1: the driver said without a code that the GPU is lost
