-- Details of a fault that the driver reports with its code.
ALTER TABLE xids ADD COLUMN gpu_instance INTEGER;      -- MIG instance of the fault, as numbered by nvidia-smi
ALTER TABLE xids ADD COLUMN compute_instance INTEGER;
ALTER TABLE xids ADD COLUMN caused_by INTEGER;         -- code of the fault that the driver reports as the cause
ALTER TABLE xids ADD COLUMN no_code INTEGER NOT NULL DEFAULT 0; -- 1: the driver reported a lost GPU without a code
