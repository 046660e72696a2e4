package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
)

const unlockLong = `Frees a lock whoever holds it, and wakes who waits for it. Of a read-write lock
that is read all readers lose it. Holders that live are told at their next
renewal or release, within ten seconds by default, and may work on until then as
if they still had it: stop them first if you can.

It shows who holds the lock and asks, if you are at a terminal; otherwise it
wants --yes. It leaves the lock alone if it has changed hands by the time you
answer, or if --if-owner names another; that is looked at just before, not in one
step with the freeing. The exit code is 1 if it was not freed: nobody held it,
somebody else did, or you said no.

A string that does not look like one of this toolkit's is freed only with
--kind setlock: it may belong to a program that knows no locks. Semaphores and
latches have no holders; see holdfast semaphore and holdfast latch.`

// An unlocking is what unlock is asked for.
type unlocking struct {
	redis     *cli.Redis
	name      string
	kind      string
	owner     string // who must hold it, if not ""
	yes, json bool
}

func unlockCommand(redis *cli.Redis) *cobra.Command {
	u := &unlocking{redis: redis}
	cmd := &cobra.Command{
		Use:   "unlock NAME",
		Short: "Free a lock whoever holds it",
		Long:  unlockLong,
		Example: `  holdfast unlock orders:42
  holdfast unlock orders:42 -y --if-owner 0f8fad5b-d9cb-469f-a165-70867728950e:1
  holdfast unlock cron:nightly --kind setlock`,
		Args:              oneName,
		ValidArgsFunction: completeName(redis),
		RunE: func(cmd *cobra.Command, args []string) error {
			u.name = args[0]
			return u.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&u.yes, "yes", "y", false, "do not ask")
	flags.StringVar(&u.owner, "if-owner", "", "only if the owner with this `id`, as show prints it, holds it")
	flags.StringVar(&u.kind, "kind", "", "what it is, where that cannot be told: a `kind` of ls")
	flags.BoolVar(&u.json, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("kind", completeKind)
	return cmd
}

// unlocked is what unlock --json prints: what was there, and whether it was freed.
type unlocked struct {
	*Object
	Unlocked bool `json:"unlocked"`
}

func (u *unlocking) run(ctx context.Context) error {
	if u.kind != "" {
		if err := checkKinds(u.kind); err != nil {
			return err
		}
	}
	if !u.yes && !cli.IsTerminal(os.Stdin) {
		return cli.Usagef("unlock wants --yes where it cannot ask")
	}
	client, err := connect(u.redis, once)
	if err != nil {
		return err
	}
	defer client.Close()
	o, err := one(ctx, client, u.name)
	switch {
	case err != nil:
		return failure(u.redis, err)
	case o == nil:
		return nothing(u.name)
	}
	if err := u.check(o); err != nil {
		return err
	}
	if !u.yes {
		if err := confirm(o); err != nil {
			return err
		}
		if err := u.stillThere(ctx, client, o); err != nil {
			return err
		}
	}
	was, err := u.force(ctx, client, o)
	switch {
	case errors.Is(err, holdfast.ErrUnknown):
		return cli.Exit(cli.ExitTempFail, err)
	case err != nil:
		return failure(u.redis, err)
	}
	return u.report(unlocked{o, was})
}

// check refuses what cannot be freed.
func (u *unlocking) check(o *Object) error {
	name := cli.Safe(o.Name)
	switch {
	case u.kind != "" && !isKind(o.Kind, u.kind):
		return cli.Usagef("%s is no %s, but %s", name, u.kind, o.Kind)
	case o.Value != nil:
		return cli.Usagef("%s is %s, which nobody holds; see holdfast semaphore and holdfast latch", name, o.Kind)
	case o.Kind == kindString && u.kind == "":
		return cli.Usagef("%s is a string of which nobody knows whether it is a lock; if it is, say --kind setlock", name)
	case o.State != stateHeld:
		return cli.Exit(cli.ExitNo, fmt.Errorf("%s: nobody holds it", name))
	case u.owner != "" && !slices.Contains(owners(o), u.owner):
		return cli.Exit(cli.ExitNo, fmt.Errorf("%s: %s does not hold it, but %s", name, cli.Safe(u.owner), stateText(o)))
	}
	return nil
}

// stillThere refuses if the lock has changed hands since it was shown.
func (u *unlocking) stillThere(ctx context.Context, client rueidis.Client, before *Object) error {
	now, err := one(ctx, client, u.name)
	switch {
	case err != nil:
		return failure(u.redis, err)
	case now == nil || now.State != stateHeld:
		return cli.Exit(cli.ExitNo, fmt.Errorf("%s: nobody holds it any more", cli.Safe(u.name)))
	case !slices.Equal(owners(now), owners(before)):
		return cli.Exit(cli.ExitNo, fmt.Errorf("%s: it was left alone, because by now it is held by %s", cli.Safe(u.name), stateText(now)))
	}
	return nil
}

// owners are the ids of all who hold it, as far as they were read.
func owners(o *Object) (ids []string) {
	for _, h := range o.Holders {
		ids = append(ids, h.ID)
	}
	return ids
}

// confirm shows who holds the lock, and asks.
func confirm(o *Object) error {
	if err := describe(os.Stderr, o); err != nil {
		return cli.Exit(cli.ExitNo, err)
	}
	fmt.Fprint(os.Stderr, "Free it, though its holder may be at work? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return cli.Exit(cli.ExitNo, fmt.Errorf("%s: left alone", cli.Safe(o.Name)))
}

// force frees the lock, as its kind has it, and reports whether it was held until then.
func (u *unlocking) force(ctx context.Context, client rueidis.Client, o *Object) (bool, error) {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return false, err
	}
	defer s.Close()
	switch {
	case u.kind == "fairlock" || o.Kind == kindFair:
		return fairlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case o.Kind == kindSet || o.Kind == kindString:
		return setlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case o.Kind == kindRW:
		rw := rwlock.New(s, o.Name, nil)
		was, err := rw.Read().ForceUnlock(ctx)
		if was || err != nil {
			return was, err
		}
		return rw.Write().ForceUnlock(ctx)
	}
	return rlock.New(s, o.Name, nil).ForceUnlock(ctx)
}

// report says what was done.
func (u *unlocking) report(done unlocked) error {
	name := cli.Safe(done.Name)
	switch {
	case u.json:
		if err := cli.WriteJSON(os.Stdout, done); err != nil {
			return cli.Exit(cli.ExitNo, err)
		}
		if !done.Unlocked {
			return cli.Silent(cli.ExitNo)
		}
	case !done.Unlocked:
		return cli.Exit(cli.ExitNo, fmt.Errorf("%s: nobody held it any more", name))
	default:
		fmt.Printf("%s: freed; it was held by %s\n", name, stateText(done.Object))
	}
	return nil
}
