package query

import (
	"context"
	"database/sql"
	"strings"

	"ingero/internal/tick"
)

// MemoryLevel is the memory that a process held at one time.
type MemoryLevel struct {
	Time int64 // Unix ns
	PID  uint32
	GPU  int64 // bytes
	Host int64 // bytes, pinned and registered
}

// MemoryLevels visits what the filter's processes held, once a second if changed, ordered by time.
// It ignores the filter's operations. The filter must select one session.
func (r *Reader) MemoryLevels(ctx context.Context, f Filter, visit func(*MemoryLevel) error) error {
	return r.levels(ctx, f, func(rows *sql.Rows) error {
		var x MemoryLevel
		if err := rows.Scan(&x.Time, &x.PID, &x.GPU, &x.Host); err != nil || !f.wants(x.PID) {
			return err
		}
		return visit(&x)
	}, "SELECT time_ns, pid, gpu_bytes, host_bytes FROM memory WHERE session = ? AND time_ns >= ? AND time_ns < ? ORDER BY time_ns, pid")
}

// GPUStates visits the GPUs' states, ordered by time, with all known fields. It ignores the
// filter's processes and operations. The filter must select one session.
func (r *Reader) GPUStates(ctx context.Context, f Filter, visit func(*tick.GPU) error) error {
	return r.levels(ctx, f, func(rows *sql.Rows) error {
		var x tick.GPU
		var ns int64
		var throttle string
		index := sql.NullInt64{}
		if err := rows.Scan(&ns, &x.Bus, &index, &x.UUID, &x.Name, &x.MemTotal, &x.MIG, &x.Lost, &throttle, &x.MemUsed, &x.Busy, &x.MemBusy, &x.ClockSM, &x.ClockMem,
			&x.ClockSMMax, &x.Temperature, &x.Power, &x.PowerLimit, &x.ECCCorrected, &x.ECCLost); err != nil {
			return err
		}
		if throttle != "" {
			x.Throttle = strings.Split(throttle, ", ")
		}
		x.Time, x.Index = unixTime(ns), -1
		if index.Valid {
			x.Index = int(index.Int64)
		}
		return visit(&x)
	}, `SELECT s.time_ns, s.bus, g.idx, coalesce(g.uuid, ''), coalesce(g.name, ''), g.mem_total, s.mig, s.lost, s.throttle, s.mem_used, s.busy, s.mem_busy, s.clock_sm, s.clock_mem,
			s.clock_sm_max, s.temperature, s.power, s.power_limit, s.ecc_corrected, s.ecc_uncorrected
		FROM gpu_states AS s LEFT JOIN gpus AS g ON g.session = s.session AND g.bus = s.bus
		WHERE s.session = ? AND s.time_ns >= ? AND s.time_ns < ? ORDER BY s.time_ns, s.bus`)
}

func (r *Reader) levels(ctx context.Context, f Filter, scan func(*sql.Rows) error, text string) error {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return err
	}
	from, to := bounds(f)
	return r.rows(ctx, scan, text, s.id, from, to)
}
