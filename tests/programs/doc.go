// Package programs holds small programs as users write them in their first week, one folder
// each. They fix the API: each must compile as it stands. Those that do something on their own
// are run by the tests of this package.
package programs
