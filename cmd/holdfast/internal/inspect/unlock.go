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

const unlockLong = `Frees a lock whoever holds it, and wakes the waiters. If a read-write lock is held for reading, all readers
lose it. Live holders learn of it at their next renewal or release, within ten seconds by default, and may work on
until then as if they still had it: stop them first if you can.

unlock shows who holds the lock and asks, if you are at a terminal; otherwise it wants --yes. It leaves the lock alone
if it has changed hands by the time you answer, or if --if-owner names another; it looks just before it frees the
lock, not in one step with that. The exit code is 1 if it was not freed: nobody held it, somebody else did, or you
said no.

A string that does not look like one of this toolkit is freed only with --kind setlock: it may belong to a program
that knows no locks. Semaphores and latches have no holders; see holdfast semaphore and holdfast latch.`

// An unlocking is what unlock is asked for.
type unlocking struct {
	redis     *cli.Redis
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
		RunE:              func(cmd *cobra.Command, args []string) error { return u.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&u.yes, "yes", "y", false, "do not ask")
	flags.StringVar(&u.owner, "if-owner", "", "only if the owner with this `id`, as show prints it, holds it")
	kindFlag(cmd, &u.kind)
	flags.BoolVar(&u.json, "json", false, "print JSON")
	return cmd
}

func (u *unlocking) run(ctx context.Context, name string) error {
	if err := checkKinds(u.kind); err != nil {
		return err
	}
	if !u.yes && !cli.IsTerminal(os.Stdin) {
		return cli.Usagef("unlock wants --yes where it cannot ask")
	}
	client, err := u.redis.Client(impatient)
	if err != nil {
		return failure(ctx, u.redis, err)
	}
	defer client.Close()
	o, err := closely(client, name).one(ctx)
	if err == nil {
		err = u.check(name, o)
	}
	if err == nil && !u.yes {
		err = u.confirm(ctx, client, o)
	}
	if err != nil {
		return failure(ctx, u.redis, err)
	}
	freed, err := u.force(ctx, client, o)
	switch {
	case errors.Is(err, holdfast.ErrUnknown):
		return cli.Exit(cli.ExitTempFail, err)
	case err != nil:
		return failure(ctx, u.redis, err)
	case u.json:
		err = cli.WriteJSON(os.Stdout, struct { // what was there, and whether it was freed
			*Object
			Unlocked bool `json:"unlocked"`
		}{o, freed})
		if err == nil && !freed {
			return cli.Silent(cli.ExitNo)
		}
	case !freed:
		return cli.Nof("%s: nobody held it any more", cli.Safe(name))
	default:
		_, err = fmt.Printf("%s: freed; it was held by %s\n", cli.Safe(name), stateText(o))
	}
	return cli.Exit(cli.ExitNo, err)
}

// check refuses what cannot be freed.
func (u *unlocking) check(name string, o *Object) error {
	if o == nil {
		return nothing(name)
	}
	name = cli.Safe(name)
	switch {
	case u.kind != "" && !isKind(o.Kind, u.kind):
		return cli.Usagef("%s is no %s, but %s", name, u.kind, o.Kind)
	case o.Value != nil:
		return cli.Usagef("%s is %s, which nobody holds; see holdfast semaphore and holdfast latch", name, o.Kind)
	case o.Kind == kindString && u.kind == "":
		return cli.Usagef("%s is a string, which may be anything; if it is a lock, say --kind setlock", name)
	case o.State != stateHeld:
		return cli.Nof("%s: nobody holds it", name)
	case u.owner != "" && !slices.Contains(owners(o), u.owner):
		return cli.Nof("%s: %s does not hold it, but %s", name, cli.Safe(u.owner), stateText(o))
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

// confirm shows who holds the lock and asks, and looks whether that is still so.
func (u *unlocking) confirm(ctx context.Context, client rueidis.Client, shown *Object) error {
	name := cli.Safe(shown.Name)
	fmt.Fprint(os.Stderr, shown.description(), "Free it, though its holder may be at work? [y/N] ")
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return cli.Nof("%s: left alone", name)
	}
	now, err := closely(client, shown.Name).one(ctx)
	switch {
	case err != nil:
		return err
	case now == nil || now.State != stateHeld:
		return cli.Nof("%s: nobody holds it any more", name)
	case !slices.Equal(owners(now), owners(shown)):
		return cli.Nof("%s: it was left alone, because by now it is held by %s", name, stateText(now))
	}
	return nil
}

// force frees the lock, as its kind does that, and reports whether it was held until then.
func (u *unlocking) force(ctx context.Context, client rueidis.Client, o *Object) (bool, error) {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return false, err
	}
	defer s.Close()
	switch {
	case u.kind == kindFair || o.Kind == kindFair:
		return fairlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case isKind(o.Kind, kindSet):
		return setlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case o.Kind == kindRW:
		rw := rwlock.New(s, o.Name, nil)
		if was, err := rw.Read().ForceUnlock(ctx); was || err != nil {
			return was, err
		}
		return rw.Write().ForceUnlock(ctx)
	}
	return rlock.New(s, o.Name, nil).ForceUnlock(ctx)
}
