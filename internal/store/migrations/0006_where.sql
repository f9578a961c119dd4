-- Where a process runs, as what, and by which command: NULL where that is not known, or
-- there is none.
ALTER TABLE processes ADD COLUMN cmdline TEXT;            -- without what may be secret
ALTER TABLE processes ADD COLUMN runtime TEXT;            -- of its container: docker, containerd, cri-o, podman, systemd-nspawn, lxc
ALTER TABLE processes ADD COLUMN container TEXT;          -- id
ALTER TABLE processes ADD COLUMN container_name TEXT;     -- in its pod
ALTER TABLE processes ADD COLUMN pod TEXT;
ALTER TABLE processes ADD COLUMN namespace TEXT;          -- of the pod
ALTER TABLE processes ADD COLUMN pod_uid TEXT;
ALTER TABLE processes ADD COLUMN qos TEXT;                -- of the pod: guaranteed, burstable, besteffort
ALTER TABLE processes ADD COLUMN unit TEXT;               -- of systemd
ALTER TABLE processes ADD COLUMN job TEXT;                -- of Slurm, PBS or LSF
ALTER TABLE processes ADD COLUMN step TEXT;               -- of the Slurm job
ALTER TABLE processes ADD COLUMN rank INTEGER;            -- in its distributed program
ALTER TABLE processes ADD COLUMN local_rank INTEGER;      -- among those on this machine
ALTER TABLE processes ADD COLUMN world_size INTEGER;      -- ranks in all
ALTER TABLE processes ADD COLUMN local_world_size INTEGER; -- ranks on this machine
ALTER TABLE processes ADD COLUMN node_rank INTEGER;       -- of this machine in the program
ALTER TABLE processes ADD COLUMN master TEXT;             -- address and port where the ranks meet
ALTER TABLE processes ADD COLUMN visible_devices TEXT;    -- CUDA_VISIBLE_DEVICES; none where it is empty

-- Pods of the machine that ask for GPUs, whether they made CUDA calls or not.
CREATE TABLE pods (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	uid       TEXT NOT NULL,
	name      TEXT NOT NULL,
	namespace TEXT NOT NULL,
	phase     TEXT NOT NULL,             -- Pending, Running: the last that was seen
	gpus      INTEGER NOT NULL,          -- that it asks for, parts of one included
	first_ns  INTEGER NOT NULL,          -- from when
	last_ns   INTEGER NOT NULL,          -- to when it was seen, or changed
	PRIMARY KEY (session, uid)
) WITHOUT ROWID;
