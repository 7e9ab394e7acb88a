//! What the system says about file systems, devices and loaded libraries, in words.

use std::path::Path;

/// The name of a file system by its number (`man 2 statfs`, and the file systems' own headers).
pub fn file_system(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x9584_58F6 => "hugetlbfs",
        0x794C_7630 => "overlayfs",
        0x6573_5546 => "fuse",
        0x6969 => "nfs",
        0x0BD0_0BD0 => "lustre",
        0x4750_4653 => "gpfs",
        0x1983_0326 => "beegfs",
        0x1803_1977 => "weka",
        0x00C3_6400 => "ceph",
        0x0102_1997 => "9p",
        0xFF53_4D42 => "cifs",
        0xFE53_4D42 => "smb2",
        0x7371_7368 => "squashfs",
        0xE0F5_E1E2 => "erofs",
        0x9660 => "iso9660",
        0x4D44 => "vfat",
        0x2011_BAB0 => "exfat",
        0x7366_746E => "ntfs3",
        0x9FA0 => "proc",
        0x6265_6572 => "sysfs",
        0x5049_5045 => "pipefs",
        0x1CD1 => "devpts",
        _ => return None,
    })
}

/// The kernel's name for a block device, `None` for file systems without one.
pub fn block_device(root: &Path, major: u32, minor: u32) -> Option<String> {
    let entry = root.join(format!("sys/dev/block/{major}:{minor}")).canonicalize().ok()?;
    Some(entry.file_name()?.to_string_lossy().into_owned())
}

/// The file from which a library with this beginning of a name is loaded in this process.
pub fn loaded_from(name: &str) -> Option<String> {
    find_mapping(&std::fs::read_to_string("/proc/self/maps").ok()?, name)
}

fn find_mapping(maps: &str, name: &str) -> Option<String> {
    maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..])).find_map(|path| {
        let file = path.rsplit('/').next()?;
        file.starts_with(name).then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_the_beginning_of_its_name() {
        let maps = "7f00-7f01 r-xp 00000000 fe:00 12   /usr/lib/libcudart.so.13\n\
                    7f02-7f03 r-xp 00000000 fe:00 13   /opt/a folder/libcuda.so.580.65\n\
                    7f04-7f05 rw-p 00000000 00:00 0    [heap]\n";
        assert_eq!(find_mapping(maps, "libcuda.so").as_deref(), Some("/opt/a folder/libcuda.so.580.65"));
        assert_eq!(find_mapping(maps, "libcufile.so"), None);
    }

    #[test]
    fn file_systems_have_names() {
        assert_eq!(file_system(0xEF53), Some("ext4"));
        assert_eq!(file_system(1), None);
    }
}
