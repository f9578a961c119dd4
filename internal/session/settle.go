package session

import (
	"context"
	"time"

	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lastNames bounds the wait at the end of a session for names of functions, lastStacks the wait for
// names of stacks.
const (
	lastNames  = time.Second
	lastStacks = 2 * time.Second
)

// functions returns the functions of a batch and those that find finds, or those of a tape.
func (r *runner) functions(b *tick.Batch, find func() []events.Function) []events.Function {
	d, all := r.can.deck, b.Functions
	if d != nil && d.plays() {
		d.answer(tape.Functions, &all, nil)
		r.names.Batch(b.Texts, b.Procs, all, b.Calls) // also when the recording session settled
		return all
	}
	all = append(all, find()...)
	if d != nil {
		d.answer(tape.Functions, &all, func() {})
	}
	return all
}

// settle waits for the names that are being looked up as the session ends, and sends them.
func (r *runner) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), lastNames)
	defer cancel()
	b := r.fan.batch()
	b.Functions = r.functions(&b.Batch, func() []events.Function { return r.names.Settle(ctx) })
	r.fan.send(b)

	ctx, cancel = context.WithTimeout(context.Background(), lastStacks)
	defer cancel()
	b = r.fan.batch()
	b.Stacks = r.stacks.settle(ctx, b.Stacks)
	r.sites.batch(b.Stacks, nil, nil)
	r.fan.send(b)
}
