// Package doctor looks at a Redis as locks see it, and says in plain words what is wrong with it, what that
// means, and what to do. It changes nothing: what it writes are keys of random names, gone at once.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A check is one question. It is asked of each master, or once. An answer without a status is none.
type check struct {
	name string
	each func(context.Context, *doctor, *node) finding
	once func(context.Context, *doctor) finding
	keys bool // goes through all keys
}

// checks are all but "reach", which comes first.
var checks = []check{
	{name: "version", each: version},
	{name: "topology", once: topology},
	{name: "eviction", each: eviction},
	{name: "persistence", each: persistence},
	{name: "replicas", each: replicas},
	{name: "clock", each: clock},
	{name: "clocks", once: clocks},
	{name: "latency", each: latency},
	{name: "scripts", each: scripts},
	{name: "acl", each: aclRights},
	{name: "sessions", once: sessionRights},
	{name: "pubsub", once: pubsub},
	{name: "connections", each: connections},
	{name: "ttl", each: withoutTTL, keys: true},
	{name: "tokens", each: tokens, keys: true},
	{name: "waiters", each: goneWaiters, keys: true},
}

// A question is what the flags say.
type question struct {
	asJSON               bool
	lease, timeout, scan time.Duration
	prefix, aclUser      string
	kinds                []string
}

// Command is the command "doctor".
func Command(redis *cli.Redis) *cobra.Command {
	var q question
	var kinds []string // of locks, by their packages
	for _, c := range wire.Channels {
		kinds = append(kinds, c.Kind)
	}
	kinds = slices.Compact(kinds)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with a Redis for locks, and how to mend it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case q.lease < time.Second:
				return cli.Usagef("--lease is %v, must be at least 1s", q.lease)
			case q.timeout <= 0:
				return cli.Usagef("--timeout is %v, must be above 0", q.timeout)
			case len(q.kinds) == 0: // also if it is given, as by a variable that is not set
				q.kinds = kinds
			}
			return run(cmd.Context(), redis, &q, newPrinter(cmd.OutOrStdout(), q.asJSON))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&q.asJSON, "json", false, "print one JSON object for each finding")
	cli.SecondsVar(flags, &q.lease, "lease", 30*time.Second, "Options.Lease of your sessions, lockWatchdogTimeout in Java")
	cli.SecondsVar(flags, &q.timeout, "timeout", 3*time.Second, "how long to wait for a silent server")
	cli.SecondsVar(flags, &q.scan, "scan", 5*time.Second, "how long to go through the keys; 0: not at all")
	flags.StringVar(&q.prefix, "prefix", "", "what the names of locks begin with, for the check of rights")
	flags.StringVar(&q.aclUser, "acl-user", "", "`user` whose rights to check, with ACL DRYRUN (default: your own)")
	flags.StringSliceVar(&q.kinds, "kinds", nil, "kinds of locks to check the rights for (default all)")
	cli.Choose(cmd, "kinds", kinds)
	return cmd
}

// A doctor is one visit.
type doctor struct {
	q        *question
	opt      rueidis.ClientOption
	client   rueidis.Client
	place    string
	nodes    []*node // the server, or those of a cluster
	slots    cluster.Map
	slotsErr error
}

// run asks everything and says what it finds.
func run(ctx context.Context, redis *cli.Redis, q *question, out *printer) error {
	opt, err := redis.Options()
	if err != nil {
		return err
	}
	opt.DisableRetry = true
	opt.ConnWriteTimeout, opt.Dialer.Timeout, opt.Sentinel.Dialer.Timeout = q.timeout, q.timeout, q.timeout
	d := &doctor{q: q, opt: opt, place: redis.Place()}
	if d.client, err = redis.NewClient(opt); err != nil {
		out.say(d.unreachable(d.place, err).of("reach", ""))
		return cmp.Or(out.Err, cli.Silent(cli.ExitUnavailable))
	}
	defer d.client.Close()
	ctx, stop := cli.UntilSignal(ctx)
	defer stop()
	found := d.reach(ctx)
	out.single = len(d.nodes) == 1
	out.say(found...)
	if len(d.masters()) == 0 {
		return cmp.Or(out.Err, redis.Failure(ctx, cli.Silent(cli.ExitUnavailable)))
	}
	for _, c := range checks {
		if c.keys && q.scan == 0 {
			continue
		}
		out.say(d.ask(ctx, c)...)
		if stopped := cli.Stopped(ctx); stopped != nil {
			return stopped
		}
	}
	out.sum()
	if out.Err == nil && out.count[statusWarn]+out.count[statusFail] > 0 {
		return cli.Silent(cli.ExitNo)
	}
	return out.Err
}

// ask asks one question, of all masters at once if it is about each.
func (d *doctor) ask(ctx context.Context, c check) []finding {
	ctx, cancel := context.WithTimeout(ctx, d.q.timeout+d.q.scan)
	defer cancel()
	var found []finding
	if c.once != nil {
		found = []finding{c.once(ctx, d).of(c.name, "")}
	} else {
		masters := d.masters()
		found = make([]finding, len(masters))
		var wg sync.WaitGroup
		for i, n := range masters {
			wg.Go(func() { found[i] = c.each(ctx, d, n).of(c.name, n.addr) })
		}
		wg.Wait()
	}
	return slices.DeleteFunc(found, func(f finding) bool { return f.Status == "" })
}

// masters are the servers that answer and grant locks; a single server counts whatever it is.
func (d *doctor) masters() (masters []*node) {
	for _, n := range d.nodes {
		if n.err == nil && (n.master || !d.cluster()) {
			masters = append(masters, n)
		}
	}
	return masters
}

func (d *doctor) cluster() bool  { return d.client.Mode() == rueidis.ClientModeCluster }
func (d *doctor) sentinel() bool { return d.client.Mode() == rueidis.ClientModeSentinel }
