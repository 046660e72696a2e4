// Package doctor looks at a Redis as locks see it, and says in plain words what is wrong with it, what that
// means, and what to do. It changes nothing: what it writes are keys of random names, gone within the same
// script.
package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const long = `Connects and says in plain words how fit this Redis is for locks: what it found, what
that means for locks, and what to do. In a cluster it looks at each master.

  ok    as it should be
  note  works; something to know, or that could not be found out
  warn  works for now, and will hurt some day
  fail  locks fail, or do not exclude

Checks: %s.

It changes nothing. The user's own rights are tried with ACL DRYRUN if the user may;
otherwise with a script that touches keys of a random name and removes them at once. If
the names of your locks have something in front that the rules of the ACL ask for, name
it: --prefix app:. An administrator asks for another user with --acl-user.

The last two checks go through all keys, with SCAN, for --scan at the most each and on
each server; 0 leaves them out.

With --json each line is an object: check, status, node (empty: the whole deployment),
found, meaning, fix.

Exit codes: 0 nothing to mend, only ok and note; 1 something to mend, warn or fail; 64
called wrongly; 69 Redis cannot be reached or refuses the user.`

// kinds are those of locks that rights are asked for, by their packages.
var kinds = []string{"rlock", "fairlock", "rwlock", "setlock", "semaphore", "latch"}

// A question is what the flags say.
type question struct {
	asJSON  bool
	lease   time.Duration
	timeout time.Duration
	scan    time.Duration
	prefix  string
	aclUser string
	kinds   []string
}

// Command is the command "doctor".
func Command(redis *cli.Redis) *cobra.Command {
	var q question
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what is wrong with a Redis for locks, and how to mend it",
		Long:  strings.Replace(long, "%s", "reach, "+strings.Join(names, ", "), 1),
		Example: `  holdfast doctor
  holdfast doctor --redis rediss://app@redis.example.com:6380 --prefix app:
  holdfast doctor --acl-user app --prefix app: --kinds rlock,latch
  holdfast doctor --json | jq 'select(.status == "fail")'
  holdfast doctor --scan 0 || page-somebody`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := q.check(); err != nil {
				return err
			}
			return run(cmd.Context(), redis, &q, newPrinter(cmd.OutOrStdout(), q.asJSON))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&q.asJSON, "json", false, "print one JSON object for each finding")
	cli.SecondsVar(flags, &q.lease, "lease", 30*time.Second, "Options.Lease of your sessions, Redisson's lockWatchdogTimeout")
	cli.SecondsVar(flags, &q.timeout, "timeout", 3*time.Second, "how long to wait for a server that is silent")
	cli.SecondsVar(flags, &q.scan, "scan", 5*time.Second, "how long to go through the keys; 0: not at all")
	flags.StringVar(&q.prefix, "prefix", "", "what the names of locks begin with, for the check of rights")
	flags.StringVar(&q.aclUser, "acl-user", "", "`user` whose rights to check; needs the right to ACL DRYRUN (default: the one that connects)")
	flags.StringSliceVar(&q.kinds, "kinds", kinds, "kinds of locks to check the rights for")
	_ = cmd.RegisterFlagCompletionFunc("kinds", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check says what is wrong with the flags.
func (q *question) check() error {
	switch {
	case q.lease < time.Second:
		return cli.Usagef("--lease is %v, must be at least 1s", q.lease)
	case q.timeout <= 0:
		return cli.Usagef("--timeout is %v, must be above 0", q.timeout)
	}
	for _, kind := range q.kinds {
		if !slices.Contains(kinds, kind) {
			return cli.Usagef("--kinds has %q, must be of %s", kind, strings.Join(kinds, ", "))
		}
	}
	return nil
}
