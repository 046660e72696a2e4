// Package trial is the command "holdfast trial": processes take and release locks on a server of the user's while the
// user lets it fail, and a report says what that did to the locks.
//
// The processes are this program again, as the hidden command "trial worker". What they do, and what is made of it, is
// in package drill.
package trial

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fleet"
	"github.com/holdfast-go/holdfast/internal/drill"
)

const (
	stall    = time.Second      // without a lock taken: not a moment's delay, but an outage
	patience = 10 * time.Second // for the first locks and the last releases, and for the removal of the keys
)

// A setup is what a process needs to know first.
type setup struct {
	Number int
	Lease  time.Duration
	Acks   holdfast.Acks
	Locks  []drill.Lock
}

// A trial is what the flags say, and what has happened.
type trial struct {
	setup
	redis       *cli.Redis
	length      time.Duration
	processes   int
	acks        string
	yes, asJSON bool

	screen  *cli.Screen
	fleet   *fleet.Fleet[drill.Event]
	ready   int   // processes
	living  int   // processes
	failed  error // of processes that ended too early
	begun   time.Time
	history drill.History
	latest  []time.Duration // when each lock was taken last, as far as is known; 0: not yet
	stalled time.Time       // since when some lock of a moment is not taken; zero: all are
}

// Command is the command "trial".
func Command(redis *cli.Redis) *cobra.Command {
	t := &trial{redis: redis}
	cmd := &cobra.Command{
		Use:   "trial",
		Short: "Take locks while you let a test server fail, and say what that did",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return redis.Failure(cmd.Context(), t.run(cmd.Context(), cmd.InheritedFlags()))
		},
	}
	flags := cmd.Flags()
	cli.SecondsVar(flags, &t.length, "for", 5*time.Minute, "how long, unless Ctrl-C ends it before")
	flags.IntVar(&t.processes, "processes", 4, "`number` of processes that take locks, 2 to 64")
	cli.SecondsVar(flags, &t.Lease, "lease", 30*time.Second, "Options.Lease of their sessions")
	flags.StringVar(&t.acks, "acks", "0", "Options.Acks: how `many` replicas must have a lock, or most, or all")
	flags.BoolVarP(&t.yes, "yes", "y", false, "do not ask whether it is the right server")
	flags.BoolVar(&t.asJSON, "json", false, "print the report as JSON, and what happens to stderr")
	cmd.AddCommand(&cobra.Command{
		Use: "worker", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return work(cmd.Context(), redis) },
	})
	return cmd
}

func (t *trial) check() error {
	n, err := strconv.Atoi(t.acks)
	t.Acks = holdfast.Acks(n)
	switch {
	case t.acks == "most":
		t.Acks = holdfast.AcksMost
	case t.acks == "all":
		t.Acks = holdfast.AcksAll
	case err != nil || n < 0:
		return cli.Usagef("--acks is %q, must be a number of replicas, most or all", t.acks)
	}
	switch {
	case t.length < time.Second:
		return cli.Usagef("--for is %v, must be at least 1s", t.length)
	case t.processes < 2 || t.processes > 64:
		return cli.Usagef("--processes is %d, must be 2 to 64", t.processes)
	case t.Lease < time.Second:
		return cli.Usagef("--lease is %v, must be at least 1s", t.Lease)
	case !t.yes && !cli.IsTerminal(os.Stdin):
		return cli.Usagef("trial needs --yes if it cannot ask: it would write keys on %s", t.redis.Place())
	}
	return nil
}

// run does it all. A signal ends the trial, but not before the report.
func (t *trial) run(ctx context.Context, flags *pflag.FlagSet) error {
	client, err := t.redis.Client(nil)
	if err != nil {
		return err
	}
	defer client.Close()
	t.screen = cli.NewScreen(os.Stdout)
	if t.asJSON {
		t.screen = cli.NewScreen(os.Stderr)
	}
	prefix := "holdfast_trial:" + rand.Text()[:8] + ":"
	t.screen.Say(fmt.Sprintf("holdfast trial on %s: %d processes take locks for %v, with a lease of %v.\n"+
		"It writes keys of names that begin with %s, and removes them at the end.",
		t.redis.Place(), t.processes, t.length, t.Lease, prefix))
	if !t.yes && !cli.Confirm("Is that a server for tests?") {
		return cli.Nof("nothing was written")
	}
	ctx, release := cli.UntilSignal(ctx) // not before: at the question a signal ends this at once
	defer release()
	cli.OutliveReaders()
	if t.Locks, err = drill.Locks(ctx, client, prefix); err != nil {
		return t.redis.Failure(ctx, err)
	}
	err = t.work(ctx, client, flags)
	t.screen.Clear()
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if left := drill.Remove(removing, client, t.Locks); left != nil {
		t.screen.Say(fmt.Sprintf("Keys of names that begin with %s may be left: %v", prefix, left))
	}
	if err != nil {
		return t.redis.Failure(ctx, err)
	}
	return errors.Join(t.tell(t.history.Report(stall, t.Lease)), t.failed)
}

// work lets the processes work, and hears what they tell.
func (t *trial) work(ctx context.Context, client rueidis.Client, flags *pflag.FlagSet) (err error) {
	if err := drill.Prepare(ctx, client, t.Locks); err != nil {
		return err
	}
	args := []string{"trial", "worker"}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Value.String() != "" { // these say which Redis; "" stands for the default, also for 0 seconds
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	t.begun, t.latest, t.history.Locks = time.Now(), make([]time.Duration, len(t.Locks)), t.Locks
	t.history.When = func(at time.Duration) time.Time {
		return time.Now().Add(at - fleet.Uptime()).Round(time.Millisecond)
	}
	t.fleet, err = fleet.Launch[drill.Event](context.WithoutCancel(ctx), t.processes, args, func(number int) any {
		t.Number = number
		return t.setup
	})
	defer t.fleet.Close()
	if err != nil {
		return err
	}
	t.living = t.processes
	// A failover must not come before all have connected, nor before all locks have been taken if that is possible.
	if err := t.hear(ctx, time.Hour, func() bool { return t.ready == t.processes }); err != nil {
		return err
	}
	if err := t.hear(ctx, patience, func() bool { return t.idle(0) == 0 }); err != nil {
		return err
	}
	t.begun, t.history.Begin = time.Now(), fleet.Uptime()
	t.note("Now fail over: kill a master, SENTINEL FAILOVER, CLUSTER FAILOVER, a restart, whatever may happen to you.")
	t.note("Ctrl-C ends the trial, with the report.")
	if err := t.hear(ctx, t.length, func() bool { return t.living == 0 }); err != nil {
		return err
	}
	t.history.End = fleet.Uptime()
	t.fleet.Finish()
	return t.hear(context.WithoutCancel(ctx), patience, func() bool { return t.living == 0 })
}

// hear records what the processes tell, until enough says so, ctx or the time ends, or nobody reads any more.
func (t *trial) hear(ctx context.Context, limit time.Duration, enough func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticks := time.NewTicker(stall / 10)
	defer ticks.Stop()
	for !enough() && (t.asJSON || t.screen.Err == nil) {
		select {
		case h := <-t.fleet.Heard:
			switch {
			case h.Ended:
				t.living--
				if err := t.fleet.Ended(h); err != nil {
					if t.history.Begin == 0 {
						return err
					}
					t.failed = errors.Join(t.failed, err)
					t.note("%v", err)
				}
			case h.Said == drill.Event{}:
				t.ready++
			}
			t.history.Take(h.Said, h.At)
			if b := h.Said.Belief; b != nil {
				t.latest[b.Lock] = max(t.latest[b.Lock], b.From) // which may be long ago: its release had no answer
				if h.Said.Lost {
					t.note("process %d was told that it has lost %s", b.Process, t.Locks[b.Lock].Label)
				}
			}
		case <-ticks.C:
			t.watch()
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// watch says when locks cannot be taken any more, and when they can again.
func (t *trial) watch() {
	idle := t.idle(stall)
	switch {
	case t.history.Begin == 0 || t.history.End > 0: // it has not begun, or is over
	case idle > 0 && t.stalled.IsZero():
		t.stalled = time.Now().Add(-stall)
		t.note("nobody can take %d of %d locks", idle, len(t.Locks)/2)
	case idle == 0 && !t.stalled.IsZero():
		t.note("all locks can be taken again, after %s", cli.Roughly(time.Since(t.stalled).Round(stall/10)))
		t.stalled = time.Time{}
	case t.screen.Live:
		t.screen.Progress(t.timed(fmt.Sprintf("%d taken", len(t.history.Beliefs))))
	}
}

// idle counts the locks of a moment that nobody has taken for so long; 0: ever.
func (t *trial) idle(long time.Duration) (n int) {
	for i, l := range t.Locks {
		if at := t.latest[i]; !l.Long && (at == 0 || long > 0 && fleet.Uptime()-at > long) {
			n++
		}
	}
	return n
}

// note says what happens, with the time of the trial.
func (t *trial) note(format string, args ...any) { t.screen.Say(t.timed(fmt.Sprintf(format, args...))) }

func (t *trial) timed(text string) string {
	return t.screen.Color(cli.Dim, fmt.Sprintf("%6.1f s  ", time.Since(t.begun).Seconds())) + text
}

// work is what one of the processes does, until there is an order to finish, or no first process any more.
func work(ctx context.Context, redis *cli.Redis) error {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) // the first process ends the others
	s, orders, events, telling := setup{}, json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout), sync.Mutex{}
	if orders.Decode(&s) != nil {
		return errors.New("trial worker: this command is for the trial alone; use \"holdfast trial\"")
	}
	session, err := redis.Open(&holdfast.Options{Lease: s.Lease, Acks: s.Acks, Label: "holdfast trial"})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // what it cannot release ends with its lease
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		var order string
		_ = orders.Decode(&order) // there is one alone, and the end of them is another
	}()
	_ = events.Encode(drill.Event{}) // it is ready
	p := &drill.Process{Session: session, Locks: s.Locks, Number: s.Number, Lease: s.Lease, Clock: fleet.Uptime}
	p.Tell = func(e drill.Event) {
		telling.Lock()
		defer telling.Unlock()
		_ = events.Encode(e) // nobody hears it only at the end
	}
	p.Work(ctx)
	return nil
}

// tell prints the report. The answer is no if a first holder was not told within the lease of a second one, or a token
// went back, of which nobody is told.
func (t *trial) tell(r *drill.Report) error {
	if r.Taken == 0 && (t.asJSON || t.screen.Err == nil) {
		return errors.New("no lock could be taken")
	}
	err := cli.Print(t.asJSON, r, t.text(r))
	if err == nil && r.Untold+len(r.Returns) > 0 {
		return cli.Silent(cli.ExitNo)
	}
	return err
}

// text is the report for people.
func (t *trial) text(r *drill.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nLocks were taken %d times, with a lease of %v and --acks %s.\n\n", r.Taken, t.Lease, t.acks)
	list(&b, "Times in which nobody could take some locks", r.Outages, func(o drill.Outage) string {
		return fmt.Sprintf("%s to %s, %s: %s", clock(o.From), clock(o.To), span(o.MS), strings.Join(o.Locks, ", "))
	})
	if len(r.Outages) > 0 {
		fmt.Fprintf(&b, "  in all %s, at the longest %s\n", span(r.UnavailableMS), span(r.LongestMS))
	}
	list(&b, "Errors with which calls failed", r.Failed, func(f *drill.Failure) string {
		return fmt.Sprintf("%s to %s, %s: %s", clock(f.First), clock(f.Last), cli.Plural(int64(f.Calls), "call"), f.Error)
	})
	list(&b, "Lost holds, whose holders were told", r.Lost, func(l drill.Loss) string {
		return fmt.Sprintf("%s process %d, %s, after %s", clock(l.Told), l.Process, l.Lock, span(l.HeldMS))
	})
	list(&b, "Second holders, of locks that others believed to have", r.Seconds, func(s drill.Second) string {
		told := "NEVER TOLD"
		if s.ToldMS != nil {
			told = "told after " + span(*s.ToldMS)
		}
		if s.ToldMS != nil && !s.InTime {
			told += ", TOO LATE"
		}
		return fmt.Sprintf("%s %s: process %d got it, too; both had it for %s, and process %d was %s",
			clock(s.Got), s.Lock, s.Process, span(s.TogetherMS), s.First, told)
	})
	list(&b, "Fencing tokens that went back", r.Returns, func(k drill.Return) string {
		return fmt.Sprintf("%s %s: %d after %d", clock(k.Got), k.Lock, k.Token, k.Before)
	})
	verdict := "No lock was given to a second holder, and no token went back."
	switch {
	case r.Untold > 0:
		verdict = fmt.Sprintf("NOT GOOD: of %s the first holder was not told within the lease.",
			cli.Plural(int64(r.Untold), "second holder"))
	case len(r.Returns) > 0:
		verdict = "NOT GOOD: tokens went back. A resource that compares them refuses the new holders."
	case len(r.Seconds) > 0:
		verdict = "The server forgot locks. Each holder was told within the lease, but until then two were at work."
	}
	return b.String() + "\n" + verdict + "\n"
}

func span(ms int64) string     { return fmt.Sprintf("%.1f s", float64(ms)/1000) }
func clock(t time.Time) string { return t.Local().Format("15:04:05.0") }

// list tells how many there are of what, and the first ones, a line each.
func list[T any](b *strings.Builder, what string, all []T, line func(T) string) {
	const most = 10
	fmt.Fprintf(b, "%s: %d\n", what, len(all))
	for _, one := range all[:min(len(all), most)] {
		b.WriteString("  " + cli.Safe(line(one)) + "\n")
	}
	if len(all) > most {
		fmt.Fprintf(b, "  and %d more, which --json shows\n", len(all)-most)
	}
}
