package acks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/sharing"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	errNode = errors.New("no such master in the cluster")
	errMore = errors.New("there are more replicas than were asked")
	errGone = &final{"the server that is the master by now does not have it"}
	errDisk = &final{"the server itself does not have it on its disk in time"}
)

// A final error is none that another round might mend.
type final struct{ text string }

func (f *final) Error() string { return f.text }

// passes reports whether another round may succeed after err.
func passes(why error) bool {
	if _, answered := rueidis.IsRedisErr(why); answered {
		return script.Passes(why)
	}
	_, is := errors.AsType[*final](why)
	return why != nil && !is
}

// round tells waiters whether enough replicas have their grants. If it has no answer for some of them, they take part
// in another round, and it returns why.
func (rs *rounds) round(at *server, all []*waiter) (trouble error) {
	ctx, cancel := context.WithTimeout(context.Background(), rs.acks.Timeout+grace)
	defer cancel()
	defer context.AfterFunc(rs.session.Context(), cancel)()
	node, err := rs.node(ctx, at, all)
	if node == nil {
		return rs.again(all, err)
	}
	asked, key := at.replicas.wanted(rs.acks.Replicas), all[0].grants[0].Key
	looks, missing := looksOf(all), make(map[*waiter]error)
	results := node.DoMulti(sharing.Dateless(ctx), rs.commands(node.B(), looks, key, asked)...)
	for i, l := range looks {
		l.read(results[i], missing)
	}
	got, err := rs.read(at, results[len(looks):])
	wanted := at.replicas.wanted(rs.acks.Replicas)
	var left []*waiter
	for _, w := range all {
		why := cmp.Or(missing[w], err)
		if why == nil && got >= asked && got < wanted {
			why = errMore
		}
		switch {
		case passes(why):
			left, trouble = append(left, w), why
		case why != nil || got < wanted:
			w.done <- rs.acks.Short(wanted, got, why)
		default:
			w.done <- nil
		}
	}
	if trouble == nil {
		return nil
	}
	rs.leave(ctx, node, key, trouble)
	return rs.again(left, trouble)
}

// node is the client of a server; nil without an error if it was learned only now which one that is.
func (rs *rounds) node(ctx context.Context, at *server, all []*waiter) (rueidis.Client, error) {
	switch {
	case !rs.cluster:
		return rs.client, nil
	case at.addr != "":
		if node := rs.client.Nodes()[at.addr]; node != nil {
			return node, nil
		}
		return nil, errNode
	}
	slots, err := cluster.Slots(ctx, rs.client, func(f func()) { rs.session.Start(f) })
	if err == nil && slots.Owner(wire.Slot(all[0].grants[0].Key)) == "" {
		err = errNode
	}
	if err != nil {
		return nil, disown(err)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.slots = slots
	return nil, nil //nolint:nilnil // as it says
}

// disown is an error of the client's that is not taken for the end of the caller's context.
func disown(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errLate
	}
	return err
}

// commands ask whether the server has what the looks are about, write something that is gone at once, and wait.
func (rs *rounds) commands(b rueidis.Builder, looks []*look, key string, replicas int) (all rueidis.Commands) {
	for _, l := range looks {
		all = append(all, l.call.InFull(b))
	}
	all = append(all, b.Set().Key(wire.Acked(key)).Value("").PxMilliseconds(1).Build())
	if rs.acks.Replicas < 0 {
		all = append(all, b.Info().Section("replication").Build())
	}
	timeout := rs.acks.Timeout.Milliseconds()
	if rs.acks.Disk {
		return append(all, b.Waitaof().Numlocal(1).Numreplicas(int64(replicas)).Timeout(timeout).Build())
	}
	return append(all, b.Wait().Numreplicas(int64(replicas)).Timeout(timeout).Build())
}

// read reads the replies to what commands has put behind the looks: so many replicas have it all.
func (rs *rounds) read(at *server, results []rueidis.RedisResult) (got int, err error) {
	for _, r := range results {
		if err := r.Error(); err != nil {
			return 0, disown(err)
		}
	}
	if rs.acks.Replicas < 0 {
		info, err := results[1].ToString()
		if err != nil {
			return 0, err
		}
		at.replicas.see(info, rs.session.Now())
	}
	last := results[len(results)-1]
	if !rs.acks.Disk {
		n, err := last.AsInt64()
		return int(n), err
	}
	n, err := last.AsIntSlice()
	switch {
	case err != nil:
		return 0, err
	case len(n) != 2:
		return 0, &final{fmt.Sprintf("unexpected reply to WAITAOF: %v", n)}
	case n[0] < 1:
		return int(n[1]), errDisk
	}
	return int(n[1]), nil
}

// leave has the client connect anew if the server says that it is a replica. Its address may lead to another server by
// now, and only those who are connected already to this one.
func (rs *rounds) leave(ctx context.Context, node rueidis.Client, key string, why error) {
	answer, ok := rueidis.IsRedisErr(why)
	if !ok || rs.cluster {
		return
	}
	rs.session.Runner().Heard(ctx, key, answer.Error())
	if strings.HasPrefix(answer.Error(), "READONLY") { // the server closes the connection behind its reply
		b := node.B()
		node.DoMulti(sharing.Dateless(ctx), b.Quit().Build(), b.Wait().Numreplicas(0).Timeout(1).Build())
	}
}

// A look asks by one call which of some grants the server has.
type look struct {
	call *script.Call
	of   []*waiter // whose they are, one by one
}

// looksOf makes the looks. A renewal for 1 ms extends nothing, and returns who has which lock.
func looksOf(all []*waiter) (looks []*look) {
	open := make(map[lease.Group]*look)
	for _, w := range all {
		for _, g := range w.grants {
			group := lease.Group{Script: g.Protocol.Renewal(), Slot: g.Slot}
			l := open[group]
			if l == nil || len(l.of) == lease.BatchSize {
				l = &look{call: script.NewCall(g.Protocol.Renewal()).Int(1)}
				open[group], looks = l, append(looks, l)
			}
			g.Protocol.Renew(l.call, g.Wire)
			l.of = append(l.of, w)
		}
	}
	return looks
}

// read notes in missing whose grants the server does not have, or why that is not known.
func (l *look) read(result rueidis.RedisResult, missing map[*waiter]error) {
	defer l.call.Free()
	answers, err := result.ToArray() // now, and a number for each
	if err == nil && len(answers) != 1+len(l.of) {
		err = &final{fmt.Sprintf("%s: %d replies for %d", l.call.Name(), len(answers), len(l.of))}
	}
	for i, w := range l.of {
		if err != nil {
			missing[w] = disown(err)
			continue
		}
		switch n, bad := answers[1+i].AsInt64(); {
		case bad != nil:
			text, _ := answers[1+i].ToString()
			missing[w] = &final{script.Words(text)}
		case n == 0:
			missing[w] = errGone
		}
	}
}
