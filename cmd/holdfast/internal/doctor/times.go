package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// Differences between clocks from which on they are worth a word, and may do harm.
const (
	apart    = 250 * time.Millisecond
	farApart = 5 * time.Second
)

const ntp = "Keep the servers and all hosts on NTP (chrony, systemd-timesyncd)."

// clock compares the server's clock with the one of this machine.
func clock(_ context.Context, _ *doctor, n *node) finding {
	if n.timeErr != nil {
		return unknown("the server's clock", "+time", n.timeErr)
	}
	off := n.ahead.Abs()
	side := "ahead of"
	if n.ahead < 0 {
		side = "behind"
	}
	switch {
	case off <= n.give+time.Millisecond:
		return okay("the server's clock and this machine's agree within %s", cli.Roughly(max(off, n.give)))
	case off < apart:
		return okay("the server's clock is %s %s this machine's", cli.Roughly(off), side)
	}
	f := note("the server's clock is %s %s this machine's", cli.Roughly(off), side).
		means("Who excludes whom does not depend on it: leases are counted by the server. But Java compares permits and " +
			"fair queues with its own clock, and ends them too soon or too late.").fix(ntp)
	if off >= farApart {
		f.Status = statusWarn
	}
	return f
}

// clocks compares the servers of a cluster with each other, replicas included.
func clocks(_ context.Context, d *doctor) finding {
	compared := slices.DeleteFunc(slices.Clone(d.nodes), func(n *node) bool { return n.err != nil || n.timeErr != nil })
	if len(compared) < 2 {
		return finding{} // there is nothing to compare
	}
	slices.SortFunc(compared, func(a, b *node) int { return cmp.Compare(a.ahead, b.ahead) })
	first, last := compared[0], compared[len(compared)-1]
	between, give := last.ahead-first.ahead, first.give+last.give
	if between <= max(apart, give) {
		return okay("the clocks of %d servers agree within %s", len(compared), cli.Roughly(max(between, give)))
	}
	return warn("the clock of %s is %s ahead of that of %s", last.addr, cli.Roughly(between), first.addr).
		means("After a failover, or when a slot moves, permits and places in fair queues end that much too soon or late.").
		fix(ntp)
}

// latency compares a round trip with what a renewal may take.
func latency(_ context.Context, d *doctor, n *node) finding {
	const fraction, worrying = 6, 30
	if n.timeErr != nil {
		return unknown("the latency", "+time", n.timeErr)
	}
	limit, trip := d.q.lease/fraction, cli.Roughly(n.trip)
	switch {
	case n.trip >= limit:
		return fail("a round trip takes %s; with a lease of %s a session gives up after %s", trip, d.q.lease, limit).
			means("Renewals fail, and holders lose their locks.").
			fix("Move the program nearer to the server, see what slows it (LATENCY DOCTOR), or raise Options.Lease.")
	case n.trip >= d.q.lease/worrying:
		return warn("a round trip takes %s; with a lease of %s a session gives up after %s", trip, d.q.lease, limit).
			means("A little slower still, and renewals fail.").
			fix("See what slows the server (SLOWLOG GET, LATENCY DOCTOR), or raise Options.Lease.")
	}
	return okay("a round trip takes %s, the median of %d; up to %s is fine", trip, samples, d.q.lease/worrying)
}
