package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
)

// An unlocking is what unlock is asked for.
type unlocking struct {
	redis     *cli.Redis
	kind      string
	owner     string                 // who must hold it, if --if-owner
	given     func(flag string) bool // is: an id that is missing is no leave to free anybody's
	yes, json bool
}

func unlockCommand(redis *cli.Redis) *cobra.Command {
	u := &unlocking{redis: redis}
	cmd := onName(redis, "unlock NAME", "Free a lock whoever holds it", u.run)
	flags := cmd.Flags()
	u.given = flags.Changed
	flags.BoolVarP(&u.yes, "yes", "y", false, "do not ask")
	flags.StringVar(&u.owner, "if-owner", "", "only if the owner with this `id`, as show prints it, holds it")
	kindFlag(cmd, &u.kind)
	flags.BoolVar(&u.json, "json", false, "print JSON")
	return cmd
}

func (u *unlocking) run(ctx context.Context, name string) error {
	if !u.yes && !cli.IsTerminal(os.Stdin) {
		return cli.Usagef("unlock needs --yes if it cannot ask")
	}
	return onServer(ctx, u.redis, impatient, func(client rueidis.Client) error { return u.unlock(ctx, client, name) })
}

func (u *unlocking) unlock(ctx context.Context, client rueidis.Client, name string) error {
	o, err := survey.Closely(client, name).As(u.kind).One(ctx)
	if err == nil {
		err = u.check(name, o)
	}
	if err == nil && !u.yes {
		err = u.confirm(ctx, client, o)
	}
	if err != nil {
		return err
	}
	cli.OutliveReaders()
	freed, err := u.force(ctx, client, o)
	switch {
	case err != nil:
		return err
	case u.json:
		err = cli.WriteJSON(os.Stdout, struct { // what was there, and whether it was freed
			*survey.Object
			Unlocked bool `json:"unlocked"`
		}{o, freed})
		if !freed {
			return &cli.ExitError{Code: cli.ExitNo, Err: err}
		}
	case !freed:
		return cli.Nof("%s: nobody held it any more", cli.Safe(name))
	default:
		_, err = fmt.Printf("%s: freed; it was held by %s\n", cli.Safe(name), stateText(o))
	}
	return cli.Afterwards(err)
}

// check refuses what cannot be freed.
func (u *unlocking) check(name string, o *survey.Object) error {
	if o == nil {
		return nothing(name)
	}
	name = cli.Safe(name)
	switch {
	case u.kind != "" && !survey.Is(o.Kind, u.kind):
		return cli.Usagef("%s is no %s, but %s", name, u.kind, o.Kind)
	case o.Value != nil:
		return cli.Usagef("%s is %s, which nobody holds; see holdfast semaphore and holdfast latch", name, o.Kind)
	case o.Kind == survey.KindString && u.kind == "":
		return cli.Usagef("%s is a string, which may be anything; if it is a lock, say --kind setlock", name)
	case o.State != survey.Held:
		return cli.Nof("%s: nobody holds it", name)
	case u.given("if-owner") && !slices.Contains(owners(o), u.owner):
		return cli.Nof("%s: %s does not hold it, but %s", name, cli.Safe(u.owner), stateText(o))
	}
	return nil
}

// owners are the ids of all who hold it, as far as they were read.
func owners(o *survey.Object) (ids []string) {
	for _, h := range o.Holders {
		ids = append(ids, h.ID)
	}
	return ids
}

// confirm shows who holds the lock and asks, and looks whether that is still so.
func (u *unlocking) confirm(ctx context.Context, client rueidis.Client, shown *survey.Object) error {
	name := cli.Safe(shown.Name)
	if !cli.Confirm(description(shown) + "Free it, though its holder may be at work?") {
		return cli.Nof("%s: left alone", name)
	}
	now, err := survey.Closely(client, shown.Name).As(u.kind).One(ctx)
	switch {
	case err != nil:
		return err
	case now == nil || now.State != survey.Held:
		return cli.Nof("%s: nobody holds it any more", name)
	case !slices.Equal(owners(now), owners(shown)):
		return cli.Nof("%s: it was left alone, because by now it is held by %s", name, stateText(now))
	}
	return nil
}

// force frees the lock, as its kind does that, and reports whether it was held until then.
func (u *unlocking) force(ctx context.Context, client rueidis.Client, o *survey.Object) (bool, error) {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return false, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch {
	case u.kind == survey.KindFair || o.Kind == survey.KindFair:
		return fairlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case survey.Is(o.Kind, survey.KindSet):
		return setlock.New(s, o.Name, nil).ForceUnlock(ctx)
	case o.Kind == survey.KindRW:
		rw := rwlock.New(s, o.Name, nil)
		if was, err := rw.Read().ForceUnlock(ctx); was || err != nil {
			return was, err
		}
		return rw.Write().ForceUnlock(ctx)
	}
	return rlock.New(s, o.Name, nil).ForceUnlock(ctx)
}

func askCommand(redis *cli.Redis) *cobra.Command {
	return onName(redis, "ask NAME", "Ask the holder of a lock for it", func(ctx context.Context, name string) error {
		return onServer(ctx, redis, impatient, func(client rueidis.Client) error { return ask(ctx, client, name) })
	})
}

// ask asks the holders, and says how many clients listen for that. The answer is no if nobody hears of it.
func ask(ctx context.Context, client rueidis.Client, name string) error {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cli.OutliveReaders()
	holders, err := rlock.New(s, name, nil).Ask(ctx) // locks of all kinds are asked in the same way
	switch {
	case errors.Is(err, holdfast.ErrWrongKind), errors.Is(err, wire.ErrSlot):
		return cli.Exit(cli.ExitUsage, err)
	case err != nil:
		return err
	}
	listening, known := survey.Listeners(ctx, client, wire.Asked(name))[wire.Asked(name)]
	asked := fmt.Sprintf("%s: asked %s", cli.Safe(name), cli.Plural(int64(holders), "holder"))
	switch {
	case holders == 0:
		return cli.Nof("%s: nobody holds it", cli.Safe(name))
	case known && listening == 0:
		return cli.Nof("%s, but nobody listens for that", asked)
	case known:
		_, err = fmt.Printf("%s; clients that listen for that: %d\n", asked, listening)
	default:
		_, err = fmt.Printf("%s; the server does not say whether anybody listens\n", asked)
	}
	return cli.Afterwards(err)
}
