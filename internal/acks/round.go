package acks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/sharing"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	errNode  = errors.New("no such master in the cluster")
	errMore  = errors.New("there are more replicas than were asked")
	errMoves = errors.New("its slot is on the way to another server")
	errGone  = &final{"the server does not have it any more"}
	errDisk  = &final{"the server itself does not have it on its disk in time"}
)

// A final error is none that another round might mend.
type final struct{ text string }

func (f *final) Error() string { return f.text }

// passes reports whether another round may succeed after err.
func passes(why error) bool {
	if refusal.Is(why) {
		return script.Passes(why) || demoted(why)
	}
	_, is := errors.AsType[*final](why)
	return why != nil && !is
}

// demoted reports whether a server says that it was demoted while WAIT was waiting, or before that began.
func demoted(why error) bool {
	return refusal.Says(why, "UNBLOCKED ") || strings.Contains(why.Error(), " cannot be used with replica instances")
}

// redirected is the server to which another one sends a call about a slot that moves, "" if it does not.
func redirected(why error) (addr string) {
	if answer, ok := rueidis.IsRedisErr(why); ok {
		addr, _ = answer.IsAsk()
	}
	return addr
}

// disown is an error of the client's that is not taken for the end of the caller's context.
func disown(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errLate
	}
	return err
}

// A round asks a server once.
type round struct {
	*rounds
	at      *server
	looks   []*look
	writes  []*look           // in whose slots it writes; nil: in another one
	missing map[*waiter]error // whose grants the server does not have, or why that is not known
}

// round tells waiters whether enough replicas have their grants. Those of whom it cannot tell take part in another
// one. If these are all of them, because of trouble, it returns that.
func (rs *rounds) round(at *server, all []*waiter) (trouble error) {
	ctx, cancel := context.WithTimeout(context.Background(), rs.acks.Timeout+grace)
	defer cancel()
	defer context.AfterFunc(rs.session.Context(), cancel)()
	node := rs.client
	if rs.cluster {
		node = node.Nodes()[at.addr]
	}
	r := round{rounds: rs, at: at, looks: looksOf(all), missing: make(map[*waiter]error)}
	got, asked, err := 0, at.replicas.wanted(rs.acks.Replicas), errNode
	if node != nil {
		got, err = r.read(node.DoMulti(sharing.Apart(ctx), r.commands(node.B(), asked)...))
	}
	wanted := at.replicas.wanted(rs.acks.Replicas)
	var again []*waiter
	var wrong error
	for _, w := range all {
		why := cmp.Or(r.missing[w], err)
		if _, said := errors.AsType[script.NameError](why); said && err != nil {
			why = err // the server says the same of all that is written
		}
		if why == nil && got >= asked && got < wanted {
			why = errMore
		}
		switch {
		case rs.another(w, why):
			again, wrong = append(again, w), cmp.Or(wrong, why)
		case why != nil || got < wanted:
			w.done <- rs.acks.Short(wanted, got, why)
		default:
			w.done <- nil
		}
	}
	if wrong != nil && node != nil {
		rs.reconnect(ctx, node, all[0].grants[0].Key, wrong)
	}
	for _, w := range again {
		trouble = cmp.Or(trouble, w.trouble)
		rs.join(w)
	}
	if len(again) < len(all) {
		return nil
	}
	return trouble
}

// another reports whether a waiter is to take part in another round, because this one went wrong like that, and notes
// what is to be different then.
func (rs *rounds) another(w *waiter, why error) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	asked, next := w.asks, redirected(why)
	w.asks, w.trouble = "", nil
	switch {
	case next != "" && asked == "": // the slot moves, and this is there already
		w.asks = next
	case !w.alone && script.BecauseOfKeys(why): // perhaps not of its own
		w.alone = true
	case why == errGone && asked != "" && len(w.grants) > 1: //nolint:errorlint // nobody wraps it
		w.trouble = why // some of them may still be where the slot comes from
	case why == errGone && !w.missed: //nolint:errorlint // nobody wraps it
		w.missed = true // by the old master perhaps
	case passes(why): // then its slot may be elsewhere
		w.trouble, rs.slots = why, nil
	default:
		return false
	}
	return true
}

// commands ask whether the server has what the looks are about, then write something in each of their slots that is
// gone at once, and wait.
func (r *round) commands(b rueidis.Builder, replicas int) (all rueidis.Commands) {
	for _, l := range r.looks {
		all = l.ahead(b, all)
		all = append(all, l.call.InFull(b))
	}
	r.writes = r.looks
	for _, l := range r.looks {
		all = l.ahead(b, all)
		all = append(all, write(b, wire.Acked(l.key)))
	}
	if r.at.moves {
		if key := r.elsewhere(r.at, r.looks[0].key); key != "" {
			r.writes = append(r.writes, nil)
			all = append(all, write(b, key))
		}
	}
	if r.acks.Replicas < 0 {
		all = append(all, b.Info().Section("replication").Build())
	}
	timeout := r.acks.Timeout.Milliseconds()
	if r.acks.Disk {
		return append(all, b.Waitaof().Numlocal(1).Numreplicas(int64(replicas)).Timeout(timeout).Build())
	}
	return append(all, b.Wait().Numreplicas(int64(replicas)).Timeout(timeout).Build())
}

func write(b rueidis.Builder, key string) rueidis.Completed {
	return b.Set().Key(key).Value("").PxMilliseconds(1).Build()
}

// read reads the replies to the commands: got replicas have all that the looks have found. It does not matter
// which of the writes were done, as they stand behind all looks.
func (r *round) read(results []rueidis.RedisResult) (got int, err error) {
	next := func(l *look) (result rueidis.RedisResult) {
		if l != nil && l.asks {
			results = results[1:]
		}
		result, results = results[0], results[1:]
		return result
	}
	for _, l := range r.looks {
		l.read(next(l), r.missing)
	}
	var refused error
	written := false
	for _, l := range r.writes {
		why := next(l).Error()
		written, refused = written || why == nil, cmp.Or(refused, why)
	}
	r.at.moves = !written && redirected(refused) != ""
	switch {
	case r.at.moves:
		return 0, errMoves
	case !written:
		return 0, disown(refused)
	}
	if r.acks.Replicas < 0 {
		info, err := next(nil).ToString()
		if err != nil {
			return 0, disown(err)
		}
		if r.at.replicas.see(info, r.session.Now()) {
			r.session.Changed()
		}
	}
	return r.acknowledged(next(nil))
}

// acknowledged reads the reply of WAIT.
func (r *round) acknowledged(result rueidis.RedisResult) (got int, err error) {
	if !r.acks.Disk {
		n, err := result.AsInt64()
		return int(n), disown(err)
	}
	n, err := result.AsIntSlice()
	switch {
	case err != nil:
		return 0, disown(err)
	case len(n) != 2:
		return 0, &final{fmt.Sprintf("unexpected reply to WAITAOF: %v", n)}
	case n[0] < 1:
		return int(n[1]), errDisk
	}
	return int(n[1]), nil
}

// reconnect makes the client connect anew if the server is none that has the key, or not a master: its address may
// lead to another one by now, and to this one only those who are connected already.
func (rs *rounds) reconnect(ctx context.Context, node rueidis.Client, key string, why error) {
	answer, ok := rueidis.IsRedisErr(why)
	if ok && !rs.cluster {
		rs.session.Runner().Heard(ctx, key, answer.Error())
	}
	if why == errGone || ok && strings.HasPrefix(answer.Error(), "READONLY") { //nolint:errorlint // nobody wraps it
		b := node.B() // the server closes the connection behind its reply
		node.DoMulti(sharing.Apart(ctx), b.Quit().Build(), b.Wait().Numreplicas(0).Timeout(1).Build())
	}
}

// A look asks by one call which of some grants the server has.
type look struct {
	call *script.Call
	key  string // one of theirs
	asks bool   // the server has not got their slot yet
	of   []owed // one by one
}

// An owed is a grant that replicas are to have.
type owed struct {
	waiter *waiter
	ends   int64 // as its grant has it
}

// ahead is what a command about the look's slot needs in front of it.
func (l *look) ahead(b rueidis.Builder, all rueidis.Commands) rueidis.Commands {
	if l.asks {
		return append(all, b.Asking().Build())
	}
	return all
}

// looksOf makes the looks. They are renewals, which return who has which lock; one for 1 ms extends nothing.
func looksOf(all []*waiter) (looks []*look) {
	type group struct {
		lease.Group
		lease string
		asks  bool
	}
	open := make(map[group]*look)
	for _, w := range all {
		for _, g := range w.grants {
			length := cmp.Or(g.lease, lease.Look)
			group := group{lease.Group{Script: g.Protocol.Renewal(), Slot: g.Slot}, length, w.asks != ""}
			l := open[group]
			if l == nil || len(l.of) == lease.BatchSize || w.alone {
				l = &look{call: script.NewCall(g.Protocol.Renewal()).Arg(length), key: g.Key, asks: group.asks}
				looks = append(looks, l)
				if !w.alone {
					open[group] = l
				}
			}
			g.Protocol.Renew(l.call, g.Wire)
			l.of = append(l.of, owed{w, g.ends})
		}
	}
	return looks
}

// read notes in missing whose grants the server does not have, or why that is not known.
func (l *look) read(result rueidis.RedisResult, missing map[*waiter]error) {
	defer l.call.Free()
	answers, err := result.ToArray() // now, and a number for each
	var now int64
	if err == nil && len(answers) == 1+len(l.of) {
		now, err = answers[0].AsInt64()
	} else if err == nil {
		err = &final{fmt.Sprintf("%s: %d replies for %d", l.call.Name(), len(answers), len(l.of))}
	}
	for i, g := range l.of {
		if err != nil {
			missing[g.waiter] = disown(err)
			continue
		}
		switch n, bad := answers[1+i].AsInt64(); {
		case bad != nil:
			text, _ := answers[1+i].ToString()
			if missing[g.waiter] = script.NameError(text); !script.Passes(missing[g.waiter]) {
				missing[g.waiter] = &final{script.Words(text)}
			}
		case n == 0 || g.ends > 0 && now+n < g.ends:
			missing[g.waiter] = errGone
		}
	}
}
