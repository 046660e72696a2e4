// Package fairqueue models the queue of a fair lock that Java and Go processes wait for together: who is next, who is
// taken for dead, and when. It has only tests.
//
// The model has one server with a virtual clock, Redisson's scripts and ours, clients of both kinds that come, wait,
// hold, re-enter, give up, crash and stall, a network that delays and loses messages and replies and delivers calls
// late, and a server that loses keys. A referee looks at the state before and after each script and knows who lives.
// Our scripts are written down twice, in Lua for the server and in Go for the model; a real server runs the Lua beside
// the model, and everything that can be seen of the two is compared.
//
// This world leaves out steps of the server's clock, a cluster that moves slots, and locks without an expiry. A
// JavaWait that is too short occurs only in a test of the order in which dropped waiters come back.
//
// The files:
//
//   - rules_test.go: what can be left out of our scripts;
//   - server_test.go: what the server stores;
//   - scripts_test.go: our scripts; java_test.go: Redisson's; calls_test.go: how ours are called;
//   - world_test.go: time, events, and what a scenario is;
//   - client_test.go, goclient_test.go, javaclient_test.go: who calls the scripts, and when;
//   - referee_test.go: what must never be seen, with all exceptions;
//   - blockade_test.go: for how long a dead head may keep a free lock from others;
//   - regimes_test.go, runs_test.go: random scenarios, more of them if HOLDFAST_STRESS is set;
//   - counterexamples_test.go: what each rule is good for;
//   - grants_test.go: what each rule is good for by which a release hands the lock on;
//   - losses_test.go: lost keys, and late copies of calls;
//   - beside_test.go, beside.lua, lua_test.go: the real scripts beside the model;
//   - cost_test.go: how many commands they take.
package fairqueue
