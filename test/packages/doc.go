// Package packages contains only tests, which make the packages as make packages does, and install,
// upgrade and remove them.
package packages
