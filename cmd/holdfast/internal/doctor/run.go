package doctor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// A doctor is one visit.
type doctor struct {
	q      *question
	redis  *cli.Redis
	opt    rueidis.ClientOption
	client rueidis.Client
	place  string
	nodes  []*node // the server, or those of a cluster
	slots  slotMap // of a cluster
}

// A check is one question. It is asked of each master, or once.
type check struct {
	name string
	each func(context.Context, *doctor, *node) finding
	once func(context.Context, *doctor) finding
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
	{name: "acl", each: rights},
	{name: "sessions", once: sessionRights},
	{name: "pubsub", once: pubsub},
	{name: "connections", each: connections},
	{name: "ttl", each: withoutTTL},
	{name: "waiters", each: goneWaiters},
}

// run asks everything and says what it finds.
func run(ctx context.Context, redis *cli.Redis, q *question, out *printer) error {
	d := &doctor{q: q, redis: redis, place: redis.Place()}
	opt, err := redis.Options()
	if err != nil {
		return err
	}
	d.opt = opt
	if err := d.connect(); err != nil {
		if coded, ok := errors.AsType[*cli.ExitError](err); ok {
			return coded
		}
		out.say(named("reach", unreachable(d, d.place, err)))
		return cmp.Or(out.err, cli.Silent(cli.ExitUnavailable))
	}
	defer d.client.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	found := d.reach(ctx)
	out.single = len(d.nodes) == 1
	out.say(found...)
	if len(d.masters()) == 0 {
		return cmp.Or(out.err, cli.Silent(cli.ExitUnavailable))
	}
	for _, c := range checks {
		if found := d.ask(ctx, c); len(found) > 0 {
			out.say(found...)
		}
		if ctx.Err() != nil {
			return cli.Exit(cli.ExitSignal+2, errors.New("doctor: interrupted"))
		}
	}
	out.sum()
	if out.err == nil && out.bad() {
		return cli.Silent(cli.ExitNo)
	}
	return out.err
}

func named(check string, f finding) finding {
	f.Check = check
	return f
}

// ask asks one question, of all masters at once if it is about each. An answer without a status is none.
func (d *doctor) ask(ctx context.Context, c check) []finding {
	ctx, cancel := context.WithTimeout(ctx, d.q.timeout+d.q.scan)
	defer cancel()
	if c.once != nil {
		if f := c.once(ctx, d); f.Status != "" {
			return []finding{named(c.name, f)}
		}
		return nil
	}
	masters := d.masters()
	found := make([]finding, len(masters))
	var wg sync.WaitGroup
	for i, n := range masters {
		wg.Go(func() { found[i] = named(c.name, c.each(ctx, d, n).on(n)) })
	}
	wg.Wait()
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
