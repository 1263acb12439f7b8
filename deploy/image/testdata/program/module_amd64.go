package main

import _ "sigs.k8s.io/yaml" // a module in the bill of materials
