package session

import (
	"context"
	"time"

	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lastNames is how long the end of a session waits for names of functions that are being
// read, lastStacks for those of stacks that are being looked up.
const (
	lastNames  = time.Second
	lastStacks = 2 * time.Second
)

// functions returns the functions of a batch with those that find finds, or those of a tape.
func (r *runner) functions(b *tick.Batch, find func() []events.Function) []events.Function {
	d, all := r.can.deck, b.Functions
	if d != nil && d.plays() {
		d.answer(tape.Functions, &all, nil)
		r.names.Batch(b.Texts, b.Procs, all, b.Calls) // also where what remained was waited for
		return all
	}
	all = append(all, find()...)
	if d != nil {
		d.answer(tape.Functions, &all, func() {})
	}
	return all
}

// settle sends the names that are still being looked up when the session ends.
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
