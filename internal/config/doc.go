// Package config turns defaults, files, the environment and flags into one
// [Config].
//
// The layers, each of which outranks those before it: defaults,
// /etc/ingero/ingero.yaml, ./ingero.yaml (never for root, who would run with what
// the owner of a folder says), the file of --config, INGERO_* variables, flags.
// Nothing is guessed: an unknown key, a key given twice, a value of the wrong
// kind and a file that somebody else could have written are errors, which say
// where and what to do.
//
// A setting is one row of the table: its key, variable, flag, default and help
// come from there, and so does the reference in the documents. Only cli calls
// this package; all others are given the values they need.
package config
