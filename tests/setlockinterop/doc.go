// Package setlockinterop holds the tests that have setlock share its locks with the libraries that take the same ones:
// redsync and redislock, which are Go, and redis-py's Lock, in a Python process that is told what to do.
//
// A machine without redis-py, which `make python` installs, skips what needs it; HOLDFAST_REQUIRE_PYTHON=1 makes that
// a failure.
package setlockinterop
