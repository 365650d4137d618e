// Package intercepttest is the test that every interception backend has to pass.
//
// A backend's own test calls Main from its TestMain and Run from a test. The programs under supervision are the test
// binary itself, which Main turns into one of the targets, so that no compiler is needed and the suite runs as any
// user; /bin/sh, python3 and gcc are used where they are there, and their cases are skipped by name where not.
package intercepttest
