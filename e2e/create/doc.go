// Package create tests create-tailrace-chat as a user runs it: npm create from a registry with the packages of the working tree, npm install, npm run dev, and the page in
// Chromium. Build tag e2e.
package create
