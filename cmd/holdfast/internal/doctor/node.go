package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A node is one server.
type node struct {
	survey.Server
	addr   string
	master bool
	err    error // it cannot be talked to
}

// size is a number of bytes for people.
func size(bytes int64) string {
	const mega = 1 << 20
	switch {
	case bytes >= mega<<10:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(mega<<10))
	case bytes >= mega:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mega)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// reach finds the servers and learns what the other checks ask them for.
func (d *doctor) reach(ctx context.Context) (found []finding) {
	if d.cluster() { // first: a client may know no node until it is asked about the slots
		ctx, cancel := context.WithTimeout(ctx, 2*d.q.timeout)
		d.slots, d.slotsErr = cluster.Slots(ctx, d.client, func(f func()) { go f() })
		cancel()
	}
	learning, cancel := context.WithTimeout(ctx, 2*d.q.timeout)
	defer cancel()
	known := d.client.Nodes()
	for addr, client := range known {
		d.nodes = append(d.nodes, &node{addr: addr, Server: survey.Server{Client: client}})
	}
	var wg sync.WaitGroup
	for _, n := range d.nodes {
		wg.Go(func() { n.err = n.Learn(learning) })
	}
	wg.Wait()
	for _, addr := range d.slots.Without(known) {
		d.nodes = append(d.nodes, &node{addr: addr, err: cluster.ErrFailed})
	}
	slices.SortFunc(d.nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	for _, n := range d.nodes {
		n.master = !d.cluster() || d.slots.Has(n.addr, 0, wire.Slots)
		if n.err != nil {
			found = append(found, d.absent(n).of("reach", n.addr))
		}
	}
	silent := len(found)
	if d.slotsErr != nil {
		found = append(found, d.unreachable(d.place, d.slotsErr).of("reach", ""))
	}
	if masters := d.masters(); len(masters) > 0 {
		secure := "without TLS"
		if d.opt.TLSConfig != nil {
			secure = "with TLS"
		}
		who := "the user " + masters[0].User
		if masters[0].User == "" {
			who = "a user that may not ask its name"
		}
		answers := d.place + " answers"
		if silent > 0 {
			answers = fmt.Sprintf("%d of %d servers of %s answer", len(d.nodes)-silent, len(d.nodes), d.place)
		}
		found = append(found, okay("%s, %s, to %s", answers, secure, who).of("reach", ""))
	}
	return found
}

// absent says of which server there is no answer, and what that means for locks.
func (d *doctor) absent(n *node) finding {
	if !d.cluster() || d.slotsErr != nil {
		return d.unreachable(n.addr, n.err)
	}
	if n.master {
		return d.unreachable(n.addr, n.err).means("Locks whose names fall into its slots cannot be taken, " +
			"and holders lose theirs when their leases end; see topology.")
	}
	where := n.addr + ", which has no slots"
	if master := d.slots.MasterOf(n.addr); master != "" {
		where = n.addr + ", a replica of " + master
	}
	f := d.unreachable(where, n.err).means("Locks go on. But one server fewer can take over when a master fails.")
	f.Status = statusWarn
	return f
}

// unreachable says why a server cannot be talked to.
func (d *doctor) unreachable(where string, err error) finding {
	f := fail("no answer from %s: %s", where, plain(err))
	if refusal.Is(err) {
		f = fail("%s refuses: %s", where, plain(err))
	}
	return f.means("No lock can be taken, and holders lose theirs when their leases end.").fix("%s", d.remedy(err))
}

// remedies are what may help against an error of a connection: a regular expression for what it says, and a sentence.
//
//go:embed remedies.txt
var remedies string

// remedy is what may help against an error of a connection.
func (d *doctor) remedy(err error) string {
	text := plain(err)
	if d.opt.Sentinel.MasterSet != "" && strings.Contains(text, "nil message") {
		text = "sentinel"
	}
	for line := range strings.Lines(remedies) {
		says, helps, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if said, err := regexp.MatchString(says, text); said && err == nil {
			return helps
		}
	}
	tls := "whether it wants TLS (rediss://)."
	switch secure := d.opt.TLSConfig != nil; {
	case cli.TimedOut(err) && secure:
		tls = "whether it does not speak TLS (redis://)."
		fallthrough
	case cli.TimedOut(err):
		return "It is silent: check host and port, firewalls, whether the server hangs, and " + tls
	case secure:
		tls = "whether it wants a certificate of this client (--cert and --key)."
	}
	return "Check the URL, that the server runs, and " + tls
}
