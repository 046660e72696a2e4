package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/rights"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// aclRights says which rights of the ACL are missing.
func aclRights(ctx context.Context, d *doctor, n *node) finding {
	name := d.probe(n)
	if name == "" {
		return finding{} // no lock with that prefix is on this server
	}
	who := d.who(n)
	err := n.Do(ctx, "PUBSUB", "SHARDNUMSUB", "0").Error()
	program := rights.Program{Kinds: d.q.kinds, Prefix: d.q.prefix, Cluster: d.cluster(), Sentinel: d.sentinel()}
	program.Sharded = d.cluster() && (!refusal.Is(err) || refusal.Denied(err)) // else it is not known
	all := program.Needed(name)
	refused, err := rights.DryRun(ctx, n.Client, who, all)
	switch {
	case err == nil:
	case who != d.self(n):
		return unknownUser(who, err)
	case n.Replica():
		return note("the rights of %s were not tried: this is a replica", who).fix("Ask the master.")
	default:
		if refused, err = rights.Try(ctx, n.Client, all); err != nil {
			return unknown("which rights "+who+" has", "+eval", err)
		}
	}
	return d.lacking(who, refused)
}

// probe is a name that nobody uses, in a slot that the server serves; "" if there is none with the prefix.
func (d *doctor) probe(n *node) string {
	for range 100_000 {
		name := d.q.prefix + "holdfast_doctor:" + rand.Text()
		if slot := int64(wire.Slot(name)); !d.cluster() || d.slots.Has(n.addr, slot, slot) {
			return name
		}
	}
	return ""
}

// who is the user whose rights are in question.
func (d *doctor) who(n *node) string { return cmp.Or(d.q.aclUser, d.self(n)) }

// self is the user that the doctor connects as.
func (d *doctor) self(n *node) string { return cmp.Or(n.User, d.opt.Username, "default") }

func unknownUser(who string, err error) finding {
	switch {
	case refusal.Denied(err):
		return note("the rights of %s are not known: only a user with the right to ACL DRYRUN can ask", who).
			fix("Run the doctor as an administrator, or as %s itself, without --acl-user.", who)
	case refusal.Is(err) && strings.Contains(plain(err), "not found"):
		return fail("there is no user %s", who).means("Nobody can connect as it.").
			fix("ACL SETUSER %s on >PASSWORD …; docs/redisson.md has the rules.", who)
	}
	return unknown("which rights "+who+" has", "+acl|dryrun", err)
}

// lacking says what rights are missing.
func (d *doctor) lacking(who string, refusals []rights.Refusal) finding {
	var rules, others []string // of commands; of keys and channels
	hidden := false            // whether keys and channels may be used, because the command may not
	for _, r := range refusals {
		switch of := strings.HasPrefix(r.Rule, "+"); {
		case of && r.Command:
			rules = append(rules, r.Rule)
		case r.Command:
			rules = append(rules, "+"+strings.ToLower(r.Args[0]))
			hidden = true
		case !of: // else the command is granted, and the keys have rules of their own
			others = append(others, r.Rule)
		}
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	names := "for all names"
	if d.q.prefix != "" {
		names = fmt.Sprintf("for names that begin with %q", d.q.prefix)
	}
	switch {
	case len(rules) == 0 && len(others) == 0:
		return okay("%s has all rights, %s", who, names)
	case len(rules) == 0 && d.q.prefix == "":
		return note("%s may send all commands, but not use all keys and channels", who).
			means("Whether it may use those of your locks is not known.").
			fix("Say what the names of your locks begin with: --prefix app:")
	case d.q.prefix == "":
		others = nil
	}
	missing := strings.Join(slices.Concat(rules, others), " ")
	f := fail("%s lacks rights, %s: %s", who, names, missing).
		means("Calls that need them fail with NOPERM.").fix("ACL SETUSER %s %s", who, missing)
	if d.cluster() {
		f.Fix += " on each server"
	}
	if hidden {
		f.Fix += " and then run the doctor again, since rights to keys and channels show only with those to commands"
	}
	if len(rules) == 0 && len(d.q.kinds) > 1 {
		f.Meaning += " If only some kinds of locks are used, name them with --kinds."
	}
	return f
}

// sessionRights says whether sessions may publish which process they are.
func sessionRights(ctx context.Context, d *doctor) finding {
	key := wire.SessionKey("holdfast_doctor")
	n := d.masters()[0]
	who := d.who(n)
	set := []rights.Right{{Args: []string{"SET", key, "x"}}}
	granted := okay("sessions of %s may publish which process they are", who)
	if who == d.self(n) {
		err := d.client.Do(ctx, d.client.B().Pexpire().Key(key).Milliseconds(1).Build()).Error()
		switch {
		case err == nil:
			return granted
		case !refusal.Denied(err): // the key's server is down, say
			return note("whether sessions may publish which process they are could not be found out: %s", plain(err)).
				fix("Fix what the other checks report, and run the doctor again.")
		}
	} else if refused, err := rights.DryRun(ctx, n.Client, who, set); err != nil {
		return finding{} // the check of rights says why
	} else if len(refused) == 0 {
		return granted
	}
	return note("sessions of %s may not publish which process they are: it has no right to keys holdfast_session:*", who).
		means("Locks work. But holders and waiters are shown without host and process.").
		fix("ACL SETUSER %s ~holdfast_session:*; or set Options.Anonymous, and they do not try.", who)
}
