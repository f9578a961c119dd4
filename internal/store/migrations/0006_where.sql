-- Where a process runs, its job and its command: NULL if unknown or
-- none.
ALTER TABLE processes ADD COLUMN cmdline TEXT;            -- without possible secrets
ALTER TABLE processes ADD COLUMN runtime TEXT;            -- container runtime: docker, containerd, cri-o, podman, systemd-nspawn, lxc
ALTER TABLE processes ADD COLUMN container TEXT;          -- ID of the container
ALTER TABLE processes ADD COLUMN container_name TEXT;     -- name of the container in its pod
ALTER TABLE processes ADD COLUMN pod TEXT;
ALTER TABLE processes ADD COLUMN namespace TEXT;          -- namespace of the pod
ALTER TABLE processes ADD COLUMN pod_uid TEXT;
ALTER TABLE processes ADD COLUMN qos TEXT;                -- QoS class of the pod: guaranteed, burstable, besteffort
ALTER TABLE processes ADD COLUMN unit TEXT;               -- systemd unit
ALTER TABLE processes ADD COLUMN job TEXT;                -- job ID of Slurm, PBS or LSF
ALTER TABLE processes ADD COLUMN step TEXT;               -- step of the Slurm job
ALTER TABLE processes ADD COLUMN rank INTEGER;            -- rank in its distributed program
ALTER TABLE processes ADD COLUMN local_rank INTEGER;      -- rank among those on this machine
ALTER TABLE processes ADD COLUMN world_size INTEGER;      -- total number of ranks
ALTER TABLE processes ADD COLUMN local_world_size INTEGER; -- number of ranks on this machine
ALTER TABLE processes ADD COLUMN node_rank INTEGER;       -- rank of this machine in the program
ALTER TABLE processes ADD COLUMN master TEXT;             -- address and port of the rendezvous of the ranks
ALTER TABLE processes ADD COLUMN visible_devices TEXT;    -- CUDA_VISIBLE_DEVICES; none if it is empty

-- Pods on the machine that request GPUs, with or without CUDA calls.
CREATE TABLE pods (
	session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
	uid       TEXT NOT NULL,
	name      TEXT NOT NULL,
	namespace TEXT NOT NULL,
	phase     TEXT NOT NULL,             -- Pending, Running: the last phase seen
	gpus      INTEGER NOT NULL,          -- requested GPUs, including parts of a GPU
	first_ns  INTEGER NOT NULL,          -- when it was first seen
	last_ns   INTEGER NOT NULL,          -- when it was last seen or changed
	PRIMARY KEY (session, uid)
) WITHOUT ROWID;
