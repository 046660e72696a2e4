package script

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// The codes that a timed call's reply begins with, as the package lua describes them; the others stay here.
const (
	Granted = 1  // or done
	Busy    = 0  // or not done
	Gone    = -1 // the hold that it was to raise or take over is not there

	late = -2 // or too early; nothing was changed
	more = -3 // done in part, and to be called again
)

// A Window is when a timed call may be executed if it is sent now.
type Window struct {
	Sent      time.Duration // now, on the session's clock
	Stands    bool          // the connection is known to stand, so the call is sent without delay
	NotBefore int64         // server ms: executed earlier, the server's clock was set back
	NotAfter  int64         // server ms; 0 if too little is known of its clock: the server refuses that, and says its time
}

// A Reply is the reply of a timed call behind its head, {code, now}.
type Reply struct {
	Sent time.Duration // when the call was sent, on the session's clock; also after an error
	At   time.Duration // when the reply came; 0: there was none
	Code int64
	Now  int64    // server ms when it was executed; 0: it does not tell
	Rest [4]int64 // 0 if there is nothing more
	Len  int      // of Rest

	script *Script
}

// lateTries is how often a call is sent at once because the server refused it as late. The first refusal brings the
// server's clock; more mean that calls are that slow.
const lateTries = 3

var errLate = &Failure{
	Class: Refused, Temporary: true, Err: errors.New("the call reached the server too late to be executed"),
}

// Timed runs a call about a key that the server executes within limit from when it is sent, or refuses: a copy that the
// network has kept does no harm (G2). call makes it when it has its place, and again when it is to be sent again, which
// is at once: because the server refused it as late, which brings the server's clock, or has done a part of it.
func (r *Runner) Timed(
	ctx context.Context, reply *Reply, key string, limit time.Duration, call func(w Window) *Call,
) error {
	*reply = Reply{}
	for refused := 0; refused < lateTries; {
		p, err := r.place(ctx, Take, key)
		if err != nil {
			return err
		}
		w := r.window(p, key, limit)
		c := call(w)
		*reply = Reply{}
		reply.Sent, reply.script = w.Sent, c.script
		if err = r.done(ctx, p, c, r.do(ctx, p.gate, c)); err == nil {
			err = r.readTimed(c, reply, key, w)
		}
		c.Free()
		switch {
		case err != nil || reply.Code != late && reply.Code != more:
			return err
		case reply.Code == late:
			refused++
		}
	}
	return errLate
}

func (r *Runner) window(p place, key string, limit time.Duration) Window {
	w := Window{Sent: r.now(), Stands: p.gate.stands(r.changes.Load())}
	w.NotBefore, w.NotAfter = r.clocks.Window(key, w.Sent, limit)
	return w
}

// readHead reads a timed call's reply. A bare now stands for {Granted, now}.
func (c *Call) readHead(dst []int64) ([]int64, error) {
	if !c.reply.IsInt64() {
		return c.ReadNumbers(dst)
	}
	now, err := c.ReadInt()
	if now <= 0 {
		err = c.Unexpected()
	}
	return append(dst, Granted, now), err
}

// readTimed reads the reply of a timed call, and learns the server's clock if the reply has it.
func (r *Runner) readTimed(c *Call, reply *Reply, key string, w Window) error {
	reply.At = r.now()
	var room [2 + len(reply.Rest)]int64
	n, err := c.readHead(room[:0])
	if err != nil {
		return err
	}
	if len(n) < 2 || len(n) > len(room) {
		return c.Unexpected()
	}
	reply.Code, reply.Now, reply.Len = n[0], n[1], copy(reply.Rest[:], n[2:])
	switch now := n[1]; {
	case now == 0: // the script has not asked
	// It was early: the clock was set back, and the samples are wrong. Or they were too old to be of use.
	case reply.Code == late && now <= w.NotAfter || w.NotAfter < w.NotBefore:
		r.clocks.Relearn(key, now, reply.At)
	default:
		r.clocks.Learn(key, now, reply.At)
	}
	return nil
}

// Unexpected is the failure of a reply that the script's header does not list.
func (r *Reply) Unexpected() error {
	rest := slices.Clone(r.Rest[:r.Len]) // not r itself, which every call would have to allocate for this
	return brokenf(r.script, "unexpected reply %d, now, %v", r.Code, rest)
}

// ReadRenewal reads the reply of a renewal, {now, r1, r2, …}, of several names, one of which has key, and learns
// the server's clock.
func (r *Runner) ReadRenewal(c *Call, key string, names int) (now int64, replies []rueidis.RedisMessage, err error) {
	values, err := c.ReadArray()
	if err != nil {
		return 0, nil, err
	}
	if len(values) != names+1 {
		return 0, nil, c.Unexpected()
	}
	if now, err = values[0].AsInt64(); err != nil {
		return 0, nil, c.Unexpected()
	}
	r.clocks.Learn(key, now, r.now())
	return now, values[1:], nil
}
